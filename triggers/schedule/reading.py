"""Reading what is due: a document becomes a schedule, or is passed by and told of. Bad data of one stops no other."""

import logging
from collections import OrderedDict
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from triggers.register.record import read_record
from triggers.register.trigger import Trigger
from triggers.schedule.schedules import spec_key, spec_of
from triggers.schedule.store import Due, read_state
from workflows.package.trigger_specs.schedule import ScheduleSpec

log = logging.getLogger(__name__)

MOST_TOLD = 1000
MOST_REMEMBERED = 10_000
LARGEST_REMEMBERED = 4096  # characters: an app may have ten thousand specs of 64 KB, and a scheduler not their memory

Document = Mapping[str, Any]


class Reading:
    def __init__(self) -> None:
        self._told: dict[str, None] = {}
        self._made: OrderedDict[str, tuple[Any, Trigger]] = OrderedDict()  # those made at run time, by what was read

    def due(self, document: Document, declared: Mapping[str, Trigger]) -> Due | None:
        """None: another scheduler's, which has other packages or a newer version; or nobody can read it."""
        try:
            if document.get("app_id") is None:
                return _declared(document, declared)
            trigger = self._made_trigger(document)
            return Due(trigger.id, trigger, _next_at(document), read_record({**document, "spec": None}))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            self._tell(str(document["_id"]), f"{type(error).__name__}: {error}")
        return None

    def _made_trigger(self, document: Document) -> Trigger:
        """To check a spec costs more than the rest of its tick, so that it is done once."""
        id_, version = document["_id"], (document["revision"], document["spec"]["json"])
        read_from, trigger = self._made.pop(id_, (None, None))
        if trigger is None or read_from != version:
            trigger = read_record(document).trigger
            if trigger is None or not isinstance(trigger.spec, ScheduleSpec):
                raise ValueError("its spec was written by another version, or names a zone that is not known here")
        if len(version[1]) <= LARGEST_REMEMBERED:
            self._made[id_] = version, trigger
            if len(self._made) > MOST_REMEMBERED:
                self._made.popitem(last=False)
        return trigger

    def _tell(self, id_: str, why: str) -> None:
        """Once, not at every look."""
        if id_ in self._told:
            return
        if len(self._told) >= MOST_TOLD:
            self._told.clear()
        self._told[id_] = None
        log.error("schedule_unreadable", extra={"trigger": id_, "error": why[:300]})


def _declared(document: Document, declared: Mapping[str, Trigger]) -> Due | None:
    id_, kept = document["_id"], document["schedule"]
    trigger = declared.get(id_)
    if trigger is None or spec_key(spec_of(trigger)) != kept.get("spec_key"):
        return None
    named = {**document, "workflow": trigger.workflow, "name": trigger.spec.name}
    return Due(id_, trigger, _next_at(document), read_record(named))


def _next_at(document: Document) -> datetime:
    next_at, _ = read_state(document)
    if next_at is None:
        raise ValueError("its next time is none")
    return next_at
