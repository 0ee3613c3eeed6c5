"""The intake of changes: one event becomes durable runs, for every trigger that it concerns."""

import logging
from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from triggers.change_stream.loop_guard import LoopGuards, Verdict
from triggers.change_stream.mapping import ChangeEvent, change_apps, debounce_key, build_change_request
from triggers.change_stream.outlook import images_hint
from triggers.change_stream.starting import RunStarter, RunIntent
from triggers.change_stream.watches import ChangeTrigger
from triggers.payload import ExpressionError, is_condition_met
from workflows.package.trigger_specs.values import format_duration

log = logging.getLogger(__name__)

Event = Mapping[str, Any]


class ChangeIntake:
    def __init__(self, change_triggers: Sequence[ChangeTrigger], starter: RunStarter, guards: LoopGuards) -> None:
        self._change_triggers = change_triggers
        self._starter = starter
        self._guards = guards
        # An event of a document waits for the earlier ones of it only where somebody cares for their order.
        self._has_document_lanes = any(
            watch.spec.ordering == "per_document" or watch.spec.debounce for watch in self._change_triggers
        )
        self._strict_triggers = tuple(watch for watch in change_triggers if watch.spec.ordering == "strict")
        self._unmatched_counts: Counter[str] = Counter()  # by watch, in the events at hand

    def lanes(self, event: Event) -> Collection[Hashable]:
        lanes: list[Hashable] = [watch.id for watch in self._strict_triggers if watch.is_for_event(event, read_event_time(event))]
        if self._has_document_lanes:
            lanes.append((event["ns"].get("coll"), repr(event.get("documentKey"))))
        return lanes

    async def process(self, events: Sequence[Event]) -> None:
        """One trigger's failure is none of the others'."""
        wishes = [wish for event in events for wish in self._intents(event)]
        self._count_unmatched()
        if wishes:
            await self._starter.start(wishes)

    def _intents(self, event: Event) -> Iterator[RunIntent]:
        happened = read_event_time(event)
        concerned = [watch for watch in self._change_triggers if watch.is_for_event(event, happened)]
        if not concerned:
            return
        change = ChangeEvent(event, happened)
        for watch in concerned:
            try:
                yield from self._intents_of(watch, change)
            except ExpressionError as error:
                self._starter.record_skip(watch.trigger, "unmappable", event_id=change.id, detail=str(error))

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
            if change_trigger.spec.debounce:  # most events go into a run that waits, and are no loop
                started = partial(self._count_start, change_trigger, change)
                yield RunIntent(change_trigger.trigger, request, debounce_key(change_trigger, app_id, change), started)
            else:
                self._count_start(change_trigger, change)
                yield RunIntent(change_trigger.trigger, request)

    def _count_unmatched(self) -> None:
        """Together: it is what becomes of most events."""
        for watch in self._change_triggers:
            if times := self._unmatched_counts.pop(watch.id, 0):
                self._starter.count_skip(watch.trigger, times=times)

    def _is_missing_image(self, change_trigger: ChangeTrigger, change: ChangeEvent) -> bool:
        """`required` is looked at here: the server would end the stream for all at the first event without it."""
        event, spec = change.event, change_trigger.spec
        if event["operationType"] == "insert" or "required" not in (spec.pre_image, spec.full_document):
            return False
        has_document = event["operationType"] == "delete" or event.get("fullDocument") is not None
        for wanted, there, reason in (
            (spec.pre_image, event.get("fullDocumentBeforeChange") is not None, "no_pre_image"),
            (spec.full_document, has_document, "no_full_document"),
        ):
            if wanted == "required" and not there:
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


def read_event_time(event: Event) -> datetime:
    """By the server's clock; milliseconds where it tells them."""
    at: datetime = event.get("wallTime") or event["clusterTime"].as_datetime()
    return at
