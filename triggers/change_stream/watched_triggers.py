"""Watches: which triggers look at which database, and which of them cannot."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from triggers.register.trigger import Trigger, declared_triggers, shadowing_spec
from triggers.register.trigger_record import Pause, TriggerRecord
from triggers.register.trigger_store import TriggerStore
from workers.store.own_collections import refusal
from workflows.package.normal_form.package_model import Package
from workflows.package.trigger_specs.change_spec import ChangeSpec
from workflows.package.trigger_specs.run_finished_spec import RunFinishedSpec

STREAM_TRIGGER_TYPES = ("database_condition", "run_finished")


@dataclass(frozen=True, slots=True)
class ChangeTrigger:
    """`since`: what happened before a trigger was made at run time is none of its business."""

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
    """Why it starts nothing whatever happens."""
    spec = trigger.spec
    if not isinstance(spec, ChangeSpec):
        return None
    # Of a whole database of ours, our own collections are left out: each run is a change in one of them.
    reason = refusal(spec.database, spec.collection or "", own_database=own_database)
    if reason is not None:
        return reason
    if not trigger.apps and spec.app_id is None:
        return "names neither apps nor app_id"
    return None


def inactive_reasons(triggers: Iterable[Trigger], *, own_database: str) -> Mapping[str, str]:
    """Trigger to reason."""
    reasons = {trigger.id: inactive_reason(trigger, own_database=own_database) for trigger in triggers}
    return {id_: reason for id_, reason in reasons.items() if reason is not None}


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
    missing_workflows: Mapping[
        str, str
    ]  # a chain's trigger to the workflow that no package here has; other machines may


class KnownPauses:
    """The pauses that the watcher last read from the store."""

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

    def _sort_triggers(
        self, triggers: Sequence[tuple[Trigger, datetime | None]], workflows: Collection[str]
    ) -> TriggerSnapshot:
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
