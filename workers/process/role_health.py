"""Health: what a role answers to those who ask whether it lives, and whether it does its work.

Alive never depends on MongoDB or Redis: whoever restarts what is not alive would restart every process in an outage.
Ready does, since a process that cannot reach them does no work.
"""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from pymongo.errors import PyMongoError

LOOP_PATIENCE_S = 30.0
STORE_PATIENCE_S = 15.0
# The longest pause of a step that failed is 10 s, and a frozen MongoDB holds one longer than that.
STEP_PATIENCE_S = 30.0

Clock = Callable[[], float]
HealthCheck = Callable[[], Sequence[str]]


def no_problems() -> Sequence[str]:
    return ()


@dataclass(frozen=True, slots=True)
class Health:
    """Each look gives what is wrong, in words; nothing when all is well."""

    live: HealthCheck = no_problems
    ready: HealthCheck = no_problems


class LoopWatch:
    """Asks an event loop to answer whenever somebody looks: between looks it costs nothing."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, *, patience_s: float = LOOP_PATIENCE_S, clock: Clock = time.monotonic
    ) -> None:
        self._loop = loop
        self._patience_s = patience_s
        self._clock = clock
        self._asked_at: float | None = None
        self._lock = threading.Lock()

    def check(self) -> Sequence[str]:
        """One question at a time: the oldest without an answer says for how long the loop has stood."""
        with self._lock:
            if self._asked_at is None:
                self._asked_at = self._clock()
                self._loop.call_soon_threadsafe(self._answer)
            stood_s = self._clock() - self._asked_at
        return loop_problems(stood_s, patience_s=self._patience_s)

    def _answer(self) -> None:
        with self._lock:
            self._asked_at = None


def loop_problems(stood_s: float, *, patience_s: float) -> Sequence[str]:
    return (f"the event loop has stood still for {stood_s:.0f} s",) if stood_s > patience_s else ()


class StepWatch:
    """The steps that a role repeats, and when each of them last succeeded."""

    def __init__(self, *names: str, patience_s: float = STEP_PATIENCE_S, clock: Clock = time.monotonic) -> None:
        self._patience_s = patience_s
        self._clock = clock
        self._succeeded_at: dict[str, float | None] = dict.fromkeys(names)

    def watch(self, name: str, step: Callable[[], Awaitable[float]]) -> Callable[[], Awaitable[float]]:
        """A step returns the seconds until it wants to be called again; for so long its silence is as agreed."""

        async def run() -> float:
            pause_s = await step()
            self._succeeded_at[name] = self._clock() + pause_s
            return pause_s

        return run

    def check(self) -> Sequence[str]:
        return [words for name, at in self._succeeded_at.items() if (words := self._describe_late(name, at))]

    def _describe_late(self, name: str, at: float | None) -> str:
        if at is None:
            return f"the step {name} has not succeeded yet"
        late_s = self._clock() - at
        return f"the step {name} is late by {late_s:.0f} s" if late_s > self._patience_s else ""


def role_health(steps: StepWatch, check: HealthCheck = no_problems) -> Health:
    """Of a role whose work are the steps of the running loop, and what else it looks at."""
    loop = LoopWatch(asyncio.get_running_loop())
    return Health(live=loop.check, ready=lambda: [*loop.check(), *steps.check(), *check()])


class StorePulse:
    """Asks MongoDB for a sign of life, again and again: who looks is told at once, however frozen it is."""

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
