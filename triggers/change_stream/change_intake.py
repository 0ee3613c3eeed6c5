"""The change intake: turns one event into durable runs, for each trigger."""

import hashlib
import json
import logging
from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from bson.objectid import ObjectId

from triggers.change_stream.bson_to_json import PlainEvent
from triggers.change_stream.loop_guard import LoopGuards, Verdict
from triggers.change_stream.run_starter import RunIntent, RunStarter
from triggers.change_stream.stream_status import images_hint
from triggers.change_stream.watched_triggers import ChangeTrigger
from triggers.event_expressions import ExpressionError, is_condition_met
from triggers.occurrence import Occurrence, build_run_request, select_app
from workers.store.dedupe_key import quote_app_id
from workers.store.run import RunRequest
from workflows.package.trigger_specs.spec_field_types import format_duration

log = logging.getLogger(__name__)

Event = Mapping[str, Any]

MAX_KEY_LENGTH = 300


class ChangeEvent:
    """An event as triggers see it. `data` is converted to plain JSON on access."""

    __slots__ = ("data", "document", "event", "event_time", "id")

    def __init__(self, event: Mapping[str, Any], event_time: datetime) -> None:
        self.id: str = event["_id"]["_data"]
        self.event_time = event_time
        self.event = event
        self.data = PlainEvent(event)
        self.document = _document_key(event)


class ChangeIntake:
    def __init__(self, change_triggers: Sequence[ChangeTrigger], starter: RunStarter, guards: LoopGuards) -> None:
        self._change_triggers = change_triggers
        self._starter = starter
        self._guards = guards
        # An event waits for the earlier ones of its document only if a trigger depends on their order.
        self._has_document_lanes = any(
            change_trigger.spec.ordering == "per_document" or change_trigger.spec.debounce
            for change_trigger in self._change_triggers
        )
        self._strict_triggers = tuple(
            change_trigger for change_trigger in change_triggers if change_trigger.spec.ordering == "strict"
        )
        self._unmatched_counts: Counter[str] = Counter()  # by trigger id, in the current events

    def lanes(self, event: Event) -> Collection[Hashable]:
        lanes: list[Hashable] = [
            change_trigger.id
            for change_trigger in self._strict_triggers
            if change_trigger.is_for_event(event, read_event_time(event))
        ]
        if self._has_document_lanes:
            lanes.append((event["ns"].get("coll"), repr(event.get("documentKey"))))
        return lanes

    async def process(self, events: Sequence[Event]) -> None:
        """A failing trigger does not affect the others."""
        intents = [intent for event in events for intent in self._intents(event)]
        self._count_unmatched()
        if intents:
            await self._starter.start(intents)

    def _intents(self, event: Event) -> Iterator[RunIntent]:
        event_time = read_event_time(event)
        concerned = [
            change_trigger for change_trigger in self._change_triggers if change_trigger.is_for_event(event, event_time)
        ]
        if not concerned:
            return
        change = ChangeEvent(event, event_time)
        for change_trigger in concerned:
            try:
                yield from self._intents_of(change_trigger, change)
            except ExpressionError as error:
                self._starter.record_skip(change_trigger.trigger, "unmappable", event_id=change.id, detail=str(error))

    def _intents_of(self, change_trigger: ChangeTrigger, change: ChangeEvent) -> Iterator[RunIntent]:
        if self._is_missing_image(change_trigger, change):
            return
        if not is_condition_met(change_trigger.spec.when, change.data):
            self._unmatched_counts[change_trigger.id] += 1
            return
        apps = [
            app_id
            for app_id in change_apps(change_trigger, change)
            if not self._starter.is_paused(change_trigger.trigger, app_id, change.id)
        ]
        if not apps or self._is_loop(change_trigger, change):
            return
        now = datetime.now(UTC)
        for app_id in apps:
            request = build_change_request(change_trigger, app_id, change, now)
            if change_trigger.spec.debounce:  # most events join a waiting run, and are no loop
                on_started = partial(self._count_start, change_trigger, change)
                yield RunIntent(
                    change_trigger.trigger, request, debounce_key(change_trigger, app_id, change), on_started
                )
            else:
                self._count_start(change_trigger, change)
                yield RunIntent(change_trigger.trigger, request)

    def _count_unmatched(self) -> None:
        """Counts events that match no condition in one step, since most events do not."""
        for change_trigger in self._change_triggers:
            if times := self._unmatched_counts.pop(change_trigger.id, 0):
                self._starter.count_skip(change_trigger.trigger, times=times)

    def _is_missing_image(self, change_trigger: ChangeTrigger, change: ChangeEvent) -> bool:
        """Checks `required` images: the server would end the stream without one."""
        event, spec = change.event, change_trigger.spec
        if event["operationType"] == "insert" or "required" not in (spec.pre_image, spec.full_document):
            return False
        has_document = event["operationType"] == "delete" or event.get("fullDocument") is not None
        for option, is_there, reason in (
            (spec.pre_image, event.get("fullDocumentBeforeChange") is not None, "no_pre_image"),
            (spec.full_document, has_document, "no_full_document"),
        ):
            if option == "required" and not is_there:
                detail = images_hint(event["ns"]["db"], event["ns"]["coll"])
                self._starter.record_skip(change_trigger.trigger, reason, event_id=change.id, detail=detail)
                return True
        return False

    def _count_start(self, change_trigger: ChangeTrigger, change: ChangeEvent) -> None:
        self._guards.count_start((change_trigger.id, change.document), event_id=change.id, event_time=change.event_time)

    def _is_loop(self, change_trigger: ChangeTrigger, change: ChangeEvent) -> bool:
        limit, document = change_trigger.spec.loop_guard, (change_trigger.id, change.document)
        verdict = self._guards.judge(document, limit, event_id=change.id, event_time=change.event_time)
        if verdict is Verdict.GO:
            return False
        per = format_duration(limit.per)
        detail = f"this document has started more than {limit.max} runs in {per}; the workflow may write to it"
        self._starter.record_skip(change_trigger.trigger, "loop_guard", event_id=change.id, detail=detail)
        if verdict is Verdict.LOOP:
            place = {"collection": change.event["ns"]["coll"], "max": limit.max, "per_s": limit.per.total_seconds()}
            log.warning("loop_stopped", extra={"trigger": change_trigger.id, **place})
        return True


def change_apps(change_trigger: ChangeTrigger, change: ChangeEvent) -> Sequence[str]:
    """Returns the apps of the trigger, or the one that the event names.

    Raises ExpressionError.
    """
    return change_trigger.trigger.apps or (select_app(change_trigger.spec.app_id, change.data),)


def build_change_request(
    change_trigger: ChangeTrigger, app_id: str, change: ChangeEvent, fired_at: datetime
) -> RunRequest:
    """Maps the event. Raises ExpressionError when that fails."""
    occurrence = Occurrence(change_trigger.trigger, app_id, change.id, fired_at, change.data)
    key = order_key(change_trigger, app_id, change)
    return build_run_request(occurrence, order_key=key, order_seq=None if key is None else change.id)


def order_key(change_trigger: ChangeTrigger, app_id: str, change: ChangeEvent) -> str | None:
    """Returns the key whose runs go one after the other; None for concurrent runs."""
    if change_trigger.spec.ordering == "none":
        return None
    if change_trigger.spec.ordering == "strict":
        return _shorten_key(f"{change_trigger.id}/{quote_app_id(app_id)}")
    return debounce_key(change_trigger, app_id, change)


def debounce_key(change_trigger: ChangeTrigger, app_id: str, change: ChangeEvent) -> str:
    return _shorten_key(f"{change_trigger.id}/{quote_app_id(app_id)}/{change.document}")


def _document_key(event: Mapping[str, Any]) -> str:
    """Identifies the document. An object id differs from text that looks alike."""
    key = event.get("documentKey")
    id_ = key["_id"] if isinstance(key, dict) and key.keys() == {"_id"} else key
    id_text = str(id_) if type(id_) is ObjectId else json.dumps(id_) if type(id_) is str else repr(id_)
    return f"{event['ns'].get('coll', '')}/{id_text}"


def _shorten_key(key: str) -> str:
    """Shortens a key, since a document key alone may fill an index entry."""
    if len(key) <= MAX_KEY_LENGTH:
        return key
    return f"{key[:100]}…{hashlib.sha256(key.encode()).hexdigest()}"


def read_event_time(event: Event) -> datetime:
    """Reads the server's time, in milliseconds where the server sends them."""
    at: datetime = event.get("wallTime") or event["clusterTime"].as_datetime()
    return at
