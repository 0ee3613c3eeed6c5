"""Watched triggers: those that need a stream, and why others are inactive."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from triggers.register.trigger import Trigger, declared_triggers, shadowing_spec
from triggers.register.trigger_record import Pause, TriggerRecord
from triggers.register.trigger_store import TriggerStore
from workers.store.reserved_collections import refusal_reason
from workflows.package.normal_form.package_model import Package
from workflows.package.trigger_specs.change_spec import ChangeSpec
from workflows.package.trigger_specs.run_finished_spec import RunFinishedSpec

STREAM_TRIGGER_TYPES = ("database_condition", "run_finished")


@dataclass(frozen=True, slots=True)
class ChangeTrigger:
    """A trigger on changes.

    It ignores events before `since`, its creation at run time.
    """

    trigger: Trigger
    spec: ChangeSpec
    since: datetime | None = None

    @property
    def id(self) -> str:
        return self.trigger.id

    def is_for_event(self, event: Mapping[str, Any], event_time: datetime) -> bool:
        if event["operationType"] not in self.spec.operations:
            return False
        if self.spec.collection is not None and event["ns"]["coll"] != self.spec.collection:
            return False
        return self.since is None or event_time >= self.since.replace(microsecond=0)  # cluster time is in seconds


def make_change_trigger(trigger: Trigger, *, since: datetime | None = None) -> ChangeTrigger:
    if not isinstance(trigger.spec, ChangeSpec):
        raise TypeError(f"{trigger.id} is no trigger on changes")
    return ChangeTrigger(trigger, trigger.spec, since)


def inactive_reason(trigger: Trigger, *, own_database: str) -> str | None:
    """Returns why the trigger can never start a run; None for an active one."""
    spec = trigger.spec
    if not isinstance(spec, ChangeSpec):
        return None
    # On our own database, our collections are left out: each run is a change in one of them.
    reason = refusal_reason(spec.database, spec.collection or "", own_database=own_database)
    if reason is not None:
        return reason
    if not trigger.apps and spec.app_id is None:
        return "names neither apps nor app_id"
    return None


@dataclass(frozen=True, slots=True)
class ChainTrigger:
    """A trigger on the end of other runs.

    It ignores runs that ended before `since`, its creation.
    """

    trigger: Trigger
    spec: RunFinishedSpec
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class TriggerSnapshot:
    change_triggers: Sequence[ChangeTrigger]
    chains: Sequence[ChainTrigger]
    inactive: Mapping[str, str]  # reasons by trigger id
    # By the trigger id of a chain: the workflow that no package here has. Other machines may have it.
    missing_workflows: Mapping[str, str]


class KnownPauses:
    """The pauses as of the watcher's last read of the store."""

    def __init__(self) -> None:
        self._records: Mapping[str, TriggerRecord] = {}

    def update(self, records: Mapping[str, TriggerRecord]) -> None:
        self._records = records

    def find(self, trigger: Trigger, app_id: str) -> Pause | None:
        record = self._records.get(trigger.id)
        return None if record is None else record.pause_of(app_id)


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
        declared = [trigger for trigger in declared_triggers(packages) if trigger.spec.type in STREAM_TRIGGER_TYPES]
        records = dict(await self._store.find_records([trigger.id for trigger in declared])) if declared else {}
        triggers: list[tuple[Trigger, datetime | None]] = [(trigger, None) for trigger in declared]
        for kind in STREAM_TRIGGER_TYPES:
            async for record in self._store.iter_runtime_triggers(kind=kind):
                records[record.id] = record
                if record.trigger is not None and _is_active(record, packages):
                    triggers.append((record.trigger, record.document.get("created_at")))
        self._pauses.update(records)
        return self._sort_triggers(triggers, packages)

    def _sort_triggers(
        self, triggers: Sequence[tuple[Trigger, datetime | None]], workflows: Collection[str]
    ) -> TriggerSnapshot:
        change_triggers: list[ChangeTrigger] = []
        chains: list[ChainTrigger] = []
        inactive: dict[str, str] = {}
        for trigger, since in triggers:
            reason = inactive_reason(trigger, own_database=self._own_database)
            if reason is not None:
                inactive[trigger.id] = reason
            elif isinstance(trigger.spec, ChangeSpec):
                change_triggers.append(make_change_trigger(trigger, since=since))
            elif isinstance(trigger.spec, RunFinishedSpec):
                chains.append(ChainTrigger(trigger, trigger.spec, since))
        awaited = {chain.trigger.id: chain.spec.workflow for chain in chains}
        missing = {id_: workflow for id_, workflow in awaited.items() if workflow not in workflows}
        return TriggerSnapshot(change_triggers, chains, inactive, missing)


def _is_active(record: TriggerRecord, packages: Mapping[str, Package]) -> bool:
    """Returns whether its workflow is started and no package shadows it."""
    if record.app_id is None or record.workflow not in packages:
        return False
    return shadowing_spec(packages, record.workflow, record.name, record.app_id) is None
