"""The loop guard: how often one document may start runs of one trigger.

A workflow that writes to the document that started it starts itself again. Time is that of the changes, not ours:
what is caught up after a night away happened as slowly as it did.
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
    """In memory, the documents that changed last: a process that starts anew lets `max` events more through."""

    def __init__(self, *, max_documents: int = MAX_DOCUMENTS, max_events: int = MAX_EVENTS) -> None:
        self._windows: OrderedDict[GuardKey, _Window] = OrderedDict()
        self._max_documents = max_documents
        self._max_events = max_events
        self._events = 0

    def judge(self, key: GuardKey, limit: LoopGuard, *, event_id: str, event_time: datetime) -> Verdict:
        """Whether this event may start a run. `count` it when it does."""
        window = self._window(key)
        let_go = window.starts
        if window.has_event(event_id):
            return Verdict.GO  # read again: it was counted already
        if let_go and event_id < let_go[0][1]:
            self._forget_events(window)  # the stream was set back to before what is remembered
        at, per = event_time.timestamp(), limit.per.total_seconds()
        while let_go and let_go[0][0] <= at - per:
            let_go.popleft()
            self._events -= 1
        if len(let_go) < limit.max:
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
