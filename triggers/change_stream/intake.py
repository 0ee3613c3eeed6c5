"""The intake of changes: one event becomes durable runs, for every trigger that it concerns."""

import logging
from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from triggers.change_stream.loop_guard import LoopGuards, Verdict
from triggers.change_stream.mapping import Change, apps_of, debounce_key, request_of
from triggers.change_stream.outlook import images_hint
from triggers.change_stream.starting import Starting, Wish
from triggers.change_stream.watches import Watch
from triggers.payload import PayloadError, holds
from workflows.package.trigger_specs.values import duration_text

log = logging.getLogger(__name__)

Event = Mapping[str, Any]


class ChangeIntake:
    def __init__(self, watches: Sequence[Watch], starting: Starting, guards: LoopGuards) -> None:
        self._watches = watches
        self._starting = starting
        self._guards = guards
        # An event of a document waits for the earlier ones of it only where somebody cares for their order.
        self._per_document = any(
            watch.spec.ordering == "per_document" or watch.spec.debounce for watch in self._watches
        )
        self._strict = tuple(watch for watch in watches if watch.spec.ordering == "strict")
        self._passed_over: Counter[str] = Counter()  # by watch, in the events at hand

    def lanes(self, event: Event) -> Collection[Hashable]:
        lanes: list[Hashable] = [watch.id for watch in self._strict if watch.concerns(event, happened_at(event))]
        if self._per_document:
            lanes.append((event["ns"].get("coll"), repr(event.get("documentKey"))))
        return lanes

    async def take(self, events: Sequence[Event]) -> None:
        """One trigger's failure is none of the others'."""
        wishes = [wish for event in events for wish in self._wishes(event)]
        self._tell_passed_over()
        if wishes:
            await self._starting.start(wishes)

    def _wishes(self, event: Event) -> Iterator[Wish]:
        happened = happened_at(event)
        concerned = [watch for watch in self._watches if watch.concerns(event, happened)]
        if not concerned:
            return
        change = Change(event, happened)
        for watch in concerned:
            try:
                yield from self._wishes_of(watch, change)
            except PayloadError as error:
                self._starting.skipped(watch.trigger, "unmappable", event_id=change.id, detail=str(error))

    def _wishes_of(self, watch: Watch, change: Change) -> Iterator[Wish]:
        if self._lacks_image(watch, change):
            return
        if not holds(watch.spec.when, change.data):
            self._passed_over[watch.id] += 1
            return
        apps = [
            app_id
            for app_id in apps_of(watch, change)
            if not self._starting.is_paused(watch.trigger, app_id, change.id)
        ]
        if not apps or self._is_loop(watch, change):
            return
        now = datetime.now(UTC)
        for app_id in apps:
            request = request_of(watch, app_id, change, now)
            if watch.spec.debounce:  # most events go into a run that waits, and are no loop
                started = partial(self._count, watch, change)
                yield Wish(watch.trigger, request, debounce_key(watch, app_id, change), started)
            else:
                self._count(watch, change)
                yield Wish(watch.trigger, request)

    def _tell_passed_over(self) -> None:
        """Together: it is what becomes of most events."""
        for watch in self._watches:
            if times := self._passed_over.pop(watch.id, 0):
                self._starting.passed_over(watch.trigger, times=times)

    def _lacks_image(self, watch: Watch, change: Change) -> bool:
        """`required` is looked at here: the server would end the stream for all at the first event without it."""
        event, spec = change.event, watch.spec
        if event["operationType"] == "insert" or "required" not in (spec.pre_image, spec.full_document):
            return False
        has_document = event["operationType"] == "delete" or event.get("fullDocument") is not None
        for wanted, there, reason in (
            (spec.pre_image, event.get("fullDocumentBeforeChange") is not None, "no_pre_image"),
            (spec.full_document, has_document, "no_full_document"),
        ):
            if wanted == "required" and not there:
                detail = images_hint(event["ns"]["db"], event["ns"]["coll"])
                self._starting.skipped(watch.trigger, reason, event_id=change.id, detail=detail)
                return True
        return False

    def _count(self, watch: Watch, change: Change) -> None:
        self._guards.count((watch.id, change.document), event_id=change.id, happened=change.happened)

    def _is_loop(self, watch: Watch, change: Change) -> bool:
        limit, document = watch.spec.loop_guard, (watch.id, change.document)
        verdict = self._guards.judge(document, limit, event_id=change.id, happened=change.happened)
        if verdict is Verdict.GO:
            return False
        per = duration_text(limit.per)
        detail = f"this document has started more than {limit.max} runs in {per}; the workflow may write to it"
        self._starting.skipped(watch.trigger, "loop_guard", event_id=change.id, detail=detail)
        if verdict is Verdict.LOOP:
            place = {"collection": change.event["ns"]["coll"], "max": limit.max, "per_s": limit.per.total_seconds()}
            log.warning("loop_stopped", extra={"trigger": watch.id, **place})
        return True


def happened_at(event: Event) -> datetime:
    """By the server's clock; milliseconds where it tells them."""
    at: datetime = event.get("wallTime") or event["clusterTime"].as_datetime()
    return at
