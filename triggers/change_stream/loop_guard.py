"""The loop guard: how often one document may start runs of one trigger.

A workflow that writes to the document that started it starts itself again. Time is that of the changes, not ours:
what is caught up after a night away happened as slowly as it did.
"""

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, auto

from workflows.package.trigger_specs.change import LoopGuard

MOST_DOCUMENTS = 10_000
MOST_EVENTS = 100_000

Key = tuple[str, str]


class Verdict(Enum):
    GO = auto()
    LOOP = auto()
    LOOP_SAID_ALREADY = auto()


@dataclass(slots=True)
class _Window:
    let_go: deque[tuple[float, str]] = field(default_factory=deque)  # time, event id
    said_at: float | None = None

    def knows(self, event_id: str) -> bool:
        newest = self.let_go[-1][1] if self.let_go else ""
        return event_id <= newest and any(known == event_id for _, known in self.let_go)


class LoopGuards:
    """In memory, the documents that changed last: a process that starts anew lets `max` events more through."""

    def __init__(self, *, most_documents: int = MOST_DOCUMENTS, most_events: int = MOST_EVENTS) -> None:
        self._windows: OrderedDict[Key, _Window] = OrderedDict()
        self._most_documents = most_documents
        self._most_events = most_events
        self._events = 0

    def judge(self, key: Key, limit: LoopGuard, *, event_id: str, happened: datetime) -> Verdict:
        """Whether this event may start a run. `count` it when it does."""
        window = self._window(key)
        let_go = window.let_go
        if window.knows(event_id):
            return Verdict.GO  # read again: it was counted already
        if let_go and event_id < let_go[0][1]:
            self._forget_events(window)  # the stream was set back to before what is remembered
        at, per = happened.timestamp(), limit.per.total_seconds()
        while let_go and let_go[0][0] <= at - per:
            let_go.popleft()
            self._events -= 1
        if len(let_go) < limit.max:
            return Verdict.GO
        if window.said_at is not None and at - window.said_at < per:
            return Verdict.LOOP_SAID_ALREADY
        window.said_at = at
        return Verdict.LOOP

    def count(self, key: Key, *, event_id: str, happened: datetime) -> None:
        window = self._window(key)
        if not window.knows(event_id):
            window.let_go.append((happened.timestamp(), event_id))
            self._events += 1
            self._keep_within_bounds()

    def _window(self, key: Key) -> _Window:
        window = self._windows.get(key)
        if window is None:
            window = self._windows[key] = _Window()
            self._keep_within_bounds()
        self._windows.move_to_end(key)
        return window

    def _keep_within_bounds(self) -> None:
        while len(self._windows) > 1 and (
            len(self._windows) > self._most_documents or self._events > self._most_events
        ):
            _, oldest = self._windows.popitem(last=False)
            self._events -= len(oldest.let_go)

    def _forget_events(self, window: _Window) -> None:
        self._events -= len(window.let_go)
        window.let_go.clear()
        window.said_at = None
