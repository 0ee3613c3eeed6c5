"""Starting: requests become durable runs, and what became of each event is told to metrics, log and tally."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from triggers.acceptance import Acceptance
from triggers.change_stream.metrics import StreamMetrics
from triggers.register.record import Pause, Record
from triggers.register.tally import Tally
from triggers.register.trigger import Trigger
from workers.landmarks import passed
from workers.store.run import Accepted, RunRequest
from workers.store.run_store import RunStore
from workers.store.storable import NotStorableError
from workers.together import together
from workers.tracing.tracing import Asked
from workflows.package.trigger_specs.change import ChangeSpec

log = logging.getLogger(__name__)

AT_MOST_TIMES_DEBOUNCE = 10


class Pauses:
    """Who is paused, as of the watcher's last look."""

    def __init__(self) -> None:
        self._records: Mapping[str, Record] = {}

    def are(self, records: Mapping[str, Record]) -> None:
        self._records = records

    def of(self, trigger: Trigger, app_id: str) -> Pause | None:
        record = self._records.get(trigger.id)
        return None if record is None else record.pause_of(app_id)


@dataclass(frozen=True, slots=True)
class Wish:
    """What a trigger asks for because of an event."""

    trigger: Trigger
    request: RunRequest
    debounce_key: str = ""
    started: Callable[[], None] | None = None  # called when it is a run of its own, not one more event of another


class Starting:
    """One of each process, for all its streams."""

    def __init__(
        self, store: RunStore, acceptance: Acceptance, metrics: StreamMetrics, *, tally: Tally, pauses: Pauses
    ) -> None:
        self._store = store
        self._acceptance = acceptance
        self._metrics = metrics
        self._tally = tally
        self._pauses = pauses

    async def start(self, wishes: Sequence[Wish]) -> None:
        """In one command where that is possible. Durable when it returns, unless it is skipped for a reason that is
        told."""
        at_once = [wish for wish in wishes if not wish.debounce_key]
        debounced: dict[str, list[Wish]] = {}
        for wish in wishes:
            if wish.debounce_key:
                debounced.setdefault(wish.debounce_key, []).append(wish)
        if at_once:  # the store places those of one order key by their sequence
            passed("accepting")
            asked = [self._acceptance.asked(wish.request) for wish in at_once]
            answers = await self._store.insert_all([each.request for each in asked])
            for wish, each, answer in zip(at_once, asked, answers, strict=True):
                self._tell(wish, each, answer)
        if debounced:
            await together(map(self._debounce_in_order, debounced.values()))

    async def _debounce_in_order(self, wishes: Sequence[Wish]) -> None:
        for wish in wishes:
            await self._debounce(wish)

    async def _debounce(self, wish: Wish) -> None:
        spec = wish.trigger.spec
        quiet = spec.debounce if isinstance(spec, ChangeSpec) else timedelta(0)
        asked = self._acceptance.asked(wish.request)
        answer: Accepted | NotStorableError
        try:
            answer = await self._store.insert_debounced(
                asked.request, key=wish.debounce_key, quiet=quiet, at_most=quiet * AT_MOST_TIMES_DEBOUNCE
            )
        except NotStorableError as error:
            answer = error
        self._tell(wish, asked, answer)

    def _tell(self, wish: Wish, asked: Asked, answer: Accepted | NotStorableError) -> None:
        trigger, request = wish.trigger, wish.request
        event_id = request.trigger.id
        if isinstance(answer, NotStorableError):
            asked.failed(answer)
            self.skipped(trigger, "not_storable", app_id=request.app_id, event_id=event_id, detail=str(answer))
            return
        self._acceptance.told(asked, answer)
        if answer.created and wish.started is not None:
            wish.started()
        if answer.created:
            self._tally.accepted(trigger, at=request.trigger.fired_at)
        elif answer.merged:
            self._tally.merged(trigger)
        else:
            self._metrics.duplicate(trigger.label)
            self._tally.duplicate(trigger, app_id=request.app_id, event_id=event_id)

    def is_paused(self, trigger: Trigger, app_id: str, event_id: str) -> bool:
        pause = self._pauses.of(trigger, app_id)
        if pause is None:
            return False
        self.skipped(trigger, "paused", app_id=app_id, event_id=event_id, detail=pause.note)
        return True

    def skipped(
        self, trigger: Trigger, reason: str, *, event_id: str, app_id: str | None = None, detail: str = ""
    ) -> None:
        self._metrics.skipped(trigger.label, reason)
        self._tally.skipped(trigger, reason, app_id=app_id, event_id=event_id, detail=detail)
        if reason not in _EXPECTED:
            log.warning("event_skipped", extra={"trigger": trigger.id, "reason": reason, "error": detail[:300]})

    def passed_over(self, trigger: Trigger, *, times: int = 1) -> None:
        """`when` does not hold: nothing to explain, and too often to be kept one by one."""
        self._metrics.skipped(trigger.label, "when", times=times)
        self._tally.passed_over(trigger, "when", times=times)


# Somebody asked for the one; the other is said once a window by whoever noticed it.
_EXPECTED = frozenset({"paused", "loop_guard"})
