"""The loop guard: limits how often one document starts runs of one trigger.

A workflow that writes to the document that started it starts itself again. The guard uses the times of the changes:
events that are caught up after an outage count with the pace at which they happened.
"""

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, auto

from workflows.package.trigger_specs.change_spec import LoopGuard

MAX_DOCUMENTS = 10_000
MAX_EVENTS = 100_000

GuardKey = tuple[str, str]


class Verdict(Enum):
    GO = auto()
    LOOP = auto()
    LOOP_REPORTED = auto()


@dataclass(slots=True)
class _Window:
    starts: deque[tuple[float, str]] = field(default_factory=deque)  # time, event id
    reported_at: float | None = None

    def has_event(self, event_id: str) -> bool:
        newest = self.starts[-1][1] if self.starts else ""
        return event_id <= newest and any(known == event_id for _, known in self.starts)


class LoopGuards:
    """Counts in memory, for the documents that changed last.

    A new process lets up to `max` more events pass.
    """

    def __init__(self, *, max_documents: int = MAX_DOCUMENTS, max_events: int = MAX_EVENTS) -> None:
        self._windows: OrderedDict[GuardKey, _Window] = OrderedDict()
        self._max_documents = max_documents
        self._max_events = max_events
        self._events = 0

    def judge(self, key: GuardKey, limit: LoopGuard, *, event_id: str, event_time: datetime) -> Verdict:
        """Returns whether this event may start a run. Call `count_start` when it does."""
        window = self._window(key)
        starts = window.starts
        if window.has_event(event_id):
            return Verdict.GO  # read again: already counted
        if starts and event_id < starts[0][1]:
            self._forget_events(window)  # the stream was set back to before these events
        at, per = event_time.timestamp(), limit.per.total_seconds()
        while starts and starts[0][0] <= at - per:
            starts.popleft()
            self._events -= 1
        if len(starts) < limit.max:
            return Verdict.GO
        if window.reported_at is not None and at - window.reported_at < per:
            return Verdict.LOOP_REPORTED
        window.reported_at = at
        return Verdict.LOOP

    def count_start(self, key: GuardKey, *, event_id: str, event_time: datetime) -> None:
        window = self._window(key)
        if not window.has_event(event_id):
            window.starts.append((event_time.timestamp(), event_id))
            self._events += 1
            self._keep_within_bounds()

    def _window(self, key: GuardKey) -> _Window:
        window = self._windows.get(key)
        if window is None:
            window = self._windows[key] = _Window()
            self._keep_within_bounds()
        self._windows.move_to_end(key)
        return window

    def _keep_within_bounds(self) -> None:
        while len(self._windows) > 1 and (len(self._windows) > self._max_documents or self._events > self._max_events):
            _, oldest = self._windows.popitem(last=False)
            self._events -= len(oldest.starts)

    def _forget_events(self, window: _Window) -> None:
        self._events -= len(window.starts)
        window.starts.clear()
        window.reported_at = None
