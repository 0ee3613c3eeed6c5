"""What the watcher knows: the triggers of its kinds, from packages and made at run time, and who of them is paused."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from triggers.change_stream.starting import KnownPauses
from triggers.change_stream.watches import ChangeTrigger, inactive_reason, make_change_trigger
from triggers.register.precedence import shadowing_spec
from triggers.register.record import TriggerRecord
from triggers.register.store import TriggerStore
from triggers.register.trigger import Trigger, declared_triggers
from workflows.package.models import Package
from workflows.package.trigger_specs.change import ChangeSpec
from workflows.package.trigger_specs.run_finished import RunFinishedSpec

STREAM_TRIGGER_TYPES = ("database_condition", "run_finished")


@dataclass(frozen=True, slots=True)
class ChainTrigger:
    """A trigger on the end of other runs. `since`: what ended before it was made is none of its business."""

    trigger: Trigger
    spec: RunFinishedSpec
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class TriggerSnapshot:
    change_triggers: Sequence[ChangeTrigger]
    chains: Sequence[ChainTrigger]
    inactive: Mapping[str, str]  # trigger to reason
    missing_workflows: Mapping[str, str]  # a chain's trigger to the workflow that no package here has; other machines may


class WatchedTriggers:
    def __init__(
        self,
        packages: Callable[[], Mapping[str, Package]],
        store: TriggerStore,
        pauses: KnownPauses,
        *,
        own_database: str,
    ) -> None:
        self._packages = packages
        self._store = store
        self._pauses = pauses
        self._own_database = own_database

    async def read(self) -> TriggerSnapshot:
        packages = self._packages()
        declared = [each for each in declared_triggers(packages) if each.spec.type in STREAM_TRIGGER_TYPES]
        records = dict(await self._store.find_records([each.id for each in declared])) if declared else {}
        triggers: list[tuple[Trigger, datetime | None]] = [(each, None) for each in declared]
        for kind in STREAM_TRIGGER_TYPES:
            async for record in self._store.iter_runtime_triggers(kind=kind):
                records[record.id] = record
                if record.trigger is not None and _is_active(record, packages):
                    triggers.append((record.trigger, record.document.get("created_at")))
        self._pauses.update(records)
        return self._sort_triggers(triggers, packages)

    def _sort_triggers(self, triggers: Sequence[tuple[Trigger, datetime | None]], workflows: Collection[str]) -> TriggerSnapshot:
        watches: list[ChangeTrigger] = []
        chains: list[ChainTrigger] = []
        refused: dict[str, str] = {}
        for trigger, since in triggers:
            reason = inactive_reason(trigger, own_database=self._own_database)
            if reason is not None:
                refused[trigger.id] = reason
            elif isinstance(trigger.spec, ChangeSpec):
                watches.append(make_change_trigger(trigger, since=since))
            elif isinstance(trigger.spec, RunFinishedSpec):
                chains.append(ChainTrigger(trigger, trigger.spec, since))
        awaited = {each.trigger.id: each.spec.workflow for each in chains}
        in_vain = {trigger: workflow for trigger, workflow in awaited.items() if workflow not in workflows}
        return TriggerSnapshot(watches, chains, refused, in_vain)


def _is_active(record: TriggerRecord, packages: Mapping[str, Package]) -> bool:
    """Its workflow is there, and no trigger of the package has its name."""
    if record.app_id is None or record.workflow not in packages:
        return False
    return shadowing_spec(packages, record.workflow, record.name, record.app_id) is None
