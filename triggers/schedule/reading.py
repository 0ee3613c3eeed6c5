"""Reading what is due: a document becomes a schedule, or is passed by and told of. Bad data of one stops no other."""

import logging
from collections import OrderedDict
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from triggers.register.record import read_record
from triggers.register.trigger import Trigger
from triggers.schedule.schedules import spec_key, spec_of
from triggers.schedule.store import DueSchedule, read_state
from workflows.package.trigger_specs.schedule import ScheduleSpec

log = logging.getLogger(__name__)

MAX_LOGGED = 1000
MAX_CACHED = 10_000
MAX_CACHED_SPEC_LENGTH = 4096  # characters: an app may have ten thousand specs of 64 KB, and a scheduler not their memory

Document = Mapping[str, Any]


class DueReader:
    def __init__(self) -> None:
        self._logged: dict[str, None] = {}
        self._cache: OrderedDict[str, tuple[Any, Trigger]] = OrderedDict()  # those made at run time, by what was read

    def read_due(self, document: Document, declared_triggers: Mapping[str, Trigger]) -> DueSchedule | None:
        """None: another scheduler's, which has other packages or a newer version; or nobody can read it."""
        try:
            if document.get("app_id") is None:
                return _read_declared(document, declared_triggers)
            trigger = self._read_runtime_trigger(document)
            return DueSchedule(trigger.id, trigger, _read_next_at(document), read_record({**document, "spec": None}))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            self._log_unreadable(str(document["_id"]), f"{type(error).__name__}: {error}")
        return None

    def _read_runtime_trigger(self, document: Document) -> Trigger:
        """To check a spec costs more than the rest of its tick, so that it is done once."""
        id_, version = document["_id"], (document["revision"], document["spec"]["json"])
        read_from, trigger = self._cache.pop(id_, (None, None))
        if trigger is None or read_from != version:
            trigger = read_record(document).trigger
            if trigger is None or not isinstance(trigger.spec, ScheduleSpec):
                raise ValueError("its spec was written by another version, or names a zone that is not known here")
        if len(version[1]) <= MAX_CACHED_SPEC_LENGTH:
            self._cache[id_] = version, trigger
            if len(self._cache) > MAX_CACHED:
                self._cache.popitem(last=False)
        return trigger

    def _log_unreadable(self, id_: str, reason: str) -> None:
        """Once, not at every look."""
        if id_ in self._logged:
            return
        if len(self._logged) >= MAX_LOGGED:
            self._logged.clear()
        self._logged[id_] = None
        log.error("schedule_unreadable", extra={"trigger": id_, "error": reason[:300]})


def _read_declared(document: Document, declared_triggers: Mapping[str, Trigger]) -> DueSchedule | None:
    id_, kept = document["_id"], document["schedule"]
    trigger = declared_triggers.get(id_)
    if trigger is None or spec_key(spec_of(trigger)) != kept.get("spec_key"):
        return None
    named = {**document, "workflow": trigger.workflow, "name": trigger.spec.name}
    return DueSchedule(id_, trigger, _read_next_at(document), read_record(named))


def _read_next_at(document: Document) -> datetime:
    next_at, _ = read_state(document)
    if next_at is None:
        raise ValueError("its next time is none")
    return next_at
