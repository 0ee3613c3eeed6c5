"""Health of a role: whether it is alive, and whether it does its work.

Alive never depends on MongoDB or Redis: otherwise a supervisor would restart every process in an outage. Ready does,
since a process without them does no work.
"""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from pymongo.errors import PyMongoError

LOOP_PATIENCE_S = 30.0
STORE_PATIENCE_S = 15.0
# A failed step pauses for at most 10 s; a frozen MongoDB blocks one for longer.
STEP_PATIENCE_S = 30.0

Clock = Callable[[], float]
HealthCheck = Callable[[], Sequence[str]]


def no_problems() -> Sequence[str]:
    return ()


@dataclass(frozen=True, slots=True)
class Health:
    """Both checks return the problems in words, or nothing if all is well."""

    live: HealthCheck = no_problems
    ready: HealthCheck = no_problems


class LoopWatch:
    """Checks that an event loop answers. Between checks it costs nothing."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, *, patience_s: float = LOOP_PATIENCE_S, clock: Clock = time.monotonic
    ) -> None:
        self._loop = loop
        self._patience_s = patience_s
        self._clock = clock
        self._asked_at: float | None = None
        self._lock = threading.Lock()

    def check(self) -> Sequence[str]:
        """Checks with one call at a time.

        The oldest unanswered one shows for how long the loop has stood still.
        """
        with self._lock:
            if self._asked_at is None:
                self._asked_at = self._clock()
                self._loop.call_soon_threadsafe(self._answer)
            stalled_s = self._clock() - self._asked_at
        return loop_problems(stalled_s, patience_s=self._patience_s)

    def _answer(self) -> None:
        with self._lock:
            self._asked_at = None


def loop_problems(stalled_s: float, *, patience_s: float) -> Sequence[str]:
    return (f"the event loop has stood still for {stalled_s:.0f} s",) if stalled_s > patience_s else ()


class StepWatch:
    """Watches the steps that a role repeats, by their last success."""

    def __init__(self, *names: str, patience_s: float = STEP_PATIENCE_S, clock: Clock = time.monotonic) -> None:
        self._patience_s = patience_s
        self._clock = clock
        self._succeeded_at: dict[str, float | None] = dict.fromkeys(names)

    def watch(self, name: str, step: Callable[[], Awaitable[float]]) -> Callable[[], Awaitable[float]]:
        """Wraps a step, which returns the seconds until its next call.

        For so long no success is expected.
        """

        async def run() -> float:
            pause_s = await step()
            self._succeeded_at[name] = self._clock() + pause_s
            return pause_s

        return run

    def check(self) -> Sequence[str]:
        return [problem for name, at in self._succeeded_at.items() if (problem := self._describe_late(name, at))]

    def _describe_late(self, name: str, at: float | None) -> str:
        if at is None:
            return f"the step {name} has not succeeded yet"
        late_s = self._clock() - at
        return f"the step {name} is late by {late_s:.0f} s" if late_s > self._patience_s else ""


def role_health(steps: StepWatch, check: HealthCheck = no_problems) -> Health:
    """Builds the health of a role from its loop, its steps and further checks."""
    loop = LoopWatch(asyncio.get_running_loop())
    return Health(live=loop.check, ready=lambda: [*loop.check(), *steps.check(), *check()])


class StorePulse:
    """Pings MongoDB again and again.

    So a check answers at once, even if MongoDB is frozen.
    """

    EVERY_S = 3.0

    def __init__(self, ping: Callable[[], Awaitable[object]], *, clock: Clock = time.monotonic) -> None:
        self._ping = ping
        self._clock = clock
        self._answered_at = clock()

    async def ping_forever(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self.EVERY_S):
                    await self._ping()
            except (PyMongoError, TimeoutError):
                pass
            else:
                self._answered_at = self._clock()
            await asyncio.sleep(self.EVERY_S)

    def check(self) -> Sequence[str]:
        silent_s = self._clock() - self._answered_at
        return (f"MongoDB has not answered for {silent_s:.0f} s",) if silent_s > STORE_PATIENCE_S else ()


def health_report(problems: Sequence[str]) -> Mapping[str, object]:
    return {"status": "failing", "problems": list(problems)} if problems else {"status": "ok"}
