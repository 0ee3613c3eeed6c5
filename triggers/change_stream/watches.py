"""Watches: which triggers look at which database, and which of them cannot."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from triggers.register.trigger import Trigger
from workers.store.own_collections import refusal
from workflows.package.trigger_specs.change import ChangeSpec


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
