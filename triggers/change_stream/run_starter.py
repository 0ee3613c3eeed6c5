"""Starting: requests become durable runs, and what became of each event is told to metrics, log and tally."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from accounting.infra.aio import gather_all
from triggers.acceptance import Acceptance
from triggers.change_stream.stream_metrics import StreamMetrics
from triggers.change_stream.watched_triggers import KnownPauses
from triggers.register.trigger import Trigger
from triggers.register.trigger_stats import TriggerStats
from workers.crash_points import crash_point
from workers.store.run import Accepted, RunRequest
from workers.store.run_store import RunStore
from workers.store.storable import NotStorableError
from workers.tracing.tracing import TracedRequest
from workflows.package.trigger_specs.change_spec import ChangeSpec

log = logging.getLogger(__name__)

MAX_DEBOUNCE_FACTOR = 10


@dataclass(frozen=True, slots=True)
class RunIntent:
    """What a trigger asks for because of an event."""

    trigger: Trigger
    request: RunRequest
    debounce_key: str = ""
    on_started: Callable[[], None] | None = None  # called when it is a run of its own, not one more event of another


class RunStarter:
    """One of each process, for all its streams."""

    def __init__(
        self,
        store: RunStore,
        acceptance: Acceptance,
        metrics: StreamMetrics,
        *,
        stats: TriggerStats,
        pauses: KnownPauses,
    ) -> None:
        self._store = store
        self._acceptance = acceptance
        self._metrics = metrics
        self._stats = stats
        self._pauses = pauses

    async def start(self, intents: Sequence[RunIntent]) -> None:
        """In one command where that is possible. Durable when it returns, unless it is skipped for a reason that is
        told."""
        at_once = [wish for wish in intents if not wish.debounce_key]
        debounced: dict[str, list[RunIntent]] = {}
        for wish in intents:
            if wish.debounce_key:
                debounced.setdefault(wish.debounce_key, []).append(wish)
        if at_once:  # the store places those of one order key by their sequence
            crash_point("accepting")
            asked = [self._acceptance.start_span(wish.request) for wish in at_once]
            answers = await self._store.insert_all([each.request for each in asked])
            for wish, each, answer in zip(at_once, asked, answers, strict=True):
                self._record_result(wish, each, answer)
        if debounced:
            await gather_all(map(self._debounce_all, debounced.values()))

    async def _debounce_all(self, intents: Sequence[RunIntent]) -> None:
        for wish in intents:
            await self._debounce(wish)

    async def _debounce(self, intent: RunIntent) -> None:
        spec = intent.trigger.spec
        quiet = spec.debounce if isinstance(spec, ChangeSpec) else timedelta(0)
        asked = self._acceptance.start_span(intent.request)
        answer: Accepted | NotStorableError
        try:
            answer = await self._store.insert_debounced(
                asked.request, key=intent.debounce_key, quiet=quiet, at_most=quiet * MAX_DEBOUNCE_FACTOR
            )
        except NotStorableError as error:
            answer = error
        self._record_result(intent, asked, answer)

    def _record_result(self, intent: RunIntent, span: TracedRequest, result: Accepted | NotStorableError) -> None:
        trigger, request = intent.trigger, intent.request
        event_id = request.trigger.id
        if isinstance(result, NotStorableError):
            span.end_failed(result)
            self.record_skip(trigger, "not_storable", app_id=request.app_id, event_id=event_id, detail=str(result))
            return
        self._acceptance.publish(span, result)
        if result.created and intent.on_started is not None:
            intent.on_started()
        if result.created:
            self._stats.count_accepted(trigger, at=request.trigger.fired_at)
        elif result.merged:
            self._stats.count_merged(trigger)
        else:
            self._metrics.count_duplicate(trigger.label)
            self._stats.record_duplicate(trigger, app_id=request.app_id, event_id=event_id)

    def is_paused(self, trigger: Trigger, app_id: str, event_id: str) -> bool:
        pause = self._pauses.find(trigger, app_id)
        if pause is None:
            return False
        self.record_skip(trigger, "paused", app_id=app_id, event_id=event_id, detail=pause.note)
        return True

    def record_skip(
        self, trigger: Trigger, reason: str, *, event_id: str, app_id: str | None = None, detail: str = ""
    ) -> None:
        self._metrics.count_skipped(trigger.label, reason)
        self._stats.record_skip(trigger, reason, app_id=app_id, event_id=event_id, detail=detail)
        if reason not in _EXPECTED_REASONS:
            log.warning("event_skipped", extra={"trigger": trigger.id, "reason": reason, "error": detail[:300]})

    def count_skip(self, trigger: Trigger, *, times: int = 1) -> None:
        """`when` does not hold: nothing to explain, and too often to be kept one by one."""
        self._metrics.count_skipped(trigger.label, "when", times=times)
        self._stats.count_skip(trigger, "when", times=times)


# Somebody asked for the one; the other is said once a window by whoever noticed it.
_EXPECTED_REASONS = frozenset({"paused", "loop_guard"})
