"""The run starter: makes run requests durable, and records the results."""

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
# An operator requested the pause, and the loop guard logs once per window.
_EXPECTED_REASONS = frozenset({"paused", "loop_guard"})


@dataclass(frozen=True, slots=True)
class RunIntent:
    """The run that a trigger requests for an event."""

    trigger: Trigger
    request: RunRequest
    debounce_key: str = ""
    on_started: Callable[[], None] | None = None  # called for a new run, not for an event that joins one


class RunStarter:
    """One per process, for all its streams."""

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
        """Makes the runs durable, in one command if possible, or records skips."""
        immediate = [intent for intent in intents if not intent.debounce_key]
        debounced: dict[str, list[RunIntent]] = {}
        for intent in intents:
            if intent.debounce_key:
                debounced.setdefault(intent.debounce_key, []).append(intent)
        if immediate:  # the store sorts requests of one order key by their sequence
            crash_point("accepting")
            spans = [self._acceptance.start_span(intent.request) for intent in immediate]
            results = await self._store.insert_all([span.request for span in spans])
            for intent, span, result in zip(immediate, spans, results, strict=True):
                self._record_result(intent, span, result)
        if debounced:
            await gather_all(map(self._debounce_all, debounced.values()))

    async def _debounce_all(self, intents: Sequence[RunIntent]) -> None:
        for intent in intents:
            await self._debounce(intent)

    async def _debounce(self, intent: RunIntent) -> None:
        spec = intent.trigger.spec
        quiet = spec.debounce if isinstance(spec, ChangeSpec) else timedelta(0)
        span = self._acceptance.start_span(intent.request)
        result: Accepted | NotStorableError
        try:
            result = await self._store.insert_debounced(
                span.request, key=intent.debounce_key, quiet=quiet, max_delay=quiet * MAX_DEBOUNCE_FACTOR
            )
        except NotStorableError as error:
            result = error
        self._record_result(intent, span, result)

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
        """Counts events that fail `when`, without notes: they are too common."""
        self._metrics.count_skipped(trigger.label, "when", times=times)
        self._stats.count_skip(trigger, "when", times=times)
