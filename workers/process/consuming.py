"""Consuming: whether the Celery consumer really takes messages, and not only lives.

A consumer may wait for ever on a connection whose other end is gone, or lose its way between two connections, while
its process looks healthy. So it is asked for proof:

1. A step in Celery's consumer is started with each connection and stopped when it is lost.
2. Its event loop ticks, at least every two seconds, and the broker answers each of its polls (Redis: within a second).
3. While it has room and its queue is not empty, it takes something. How long the queue is, and whether the broker
   answers at all, is asked over a connection of our own.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import Empty
from typing import Any

from celery import bootsteps
from celery.worker import state

TICK_S = 2.0
TICK_PATIENCE_S = 15.0
ANSWER_PATIENCE_S = 10.0
TAKE_PATIENCE_S = 15.0
STUCK_S = 120.0  # longer than any wait for a frozen Redis, retries included


@dataclass(frozen=True, slots=True)
class Signs:
    """What is known of a consumer; times are seconds since. None where its transport does not tell."""

    connected: bool
    ticked_s: float | None
    answered_s: float | None
    took_s: float  # since it took a message, or had no reason to


def not_consuming(signs: Signs) -> Sequence[str]:
    if not signs.connected:
        return ("the consumer is not connected to its broker",)
    problems = []
    if (signs.ticked_s or 0) > TICK_PATIENCE_S:
        problems.append(f"the consumer has stood still for {signs.ticked_s:.0f} s")
    if (signs.answered_s or 0) > ANSWER_PATIENCE_S:
        problems.append(f"the broker has not answered the consumer for {signs.answered_s:.0f} s")
    if signs.took_s > TAKE_PATIENCE_S:
        problems.append(f"the consumer has room and takes nothing from a queue that waits, for {signs.took_s:.0f} s")
    return problems


def stuck(signs: Signs) -> Sequence[str]:
    """Its thread turns no more. Without a connection it waits for one: that is no fault of the process."""
    if signs.connected and (signs.ticked_s or 0) > STUCK_S:
        return (f"the consumer thread has stood still for {signs.ticked_s:.0f} s",)
    return ()


class ConsumerWatch:
    """Written by the consumer's thread, read by others: each value alone, so without a lock."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._connected = False
        self._ticks = False
        self._tells_answers = False
        self._ticked_at = self._answered_at = self._took_at = clock()
        self._taken = 0
        self._busy: Callable[[], bool] = lambda: False

    def signs(self) -> Signs:
        now = self._clock()
        return Signs(
            connected=self._connected,
            ticked_s=now - self._ticked_at if self._ticks else None,
            answered_s=now - self._answered_at if self._tells_answers else None,
            took_s=now - self._took_at,
        )

    def queue_is_empty(self) -> None:
        self._took_at = self._clock()

    def connected(self, consumer: Any) -> None:
        def busy() -> bool:
            limit = getattr(consumer.controller, "max_concurrency", None) or consumer.pool.num_processes
            return len(state.reserved_requests) >= int(limit)

        self._busy = busy
        self._tells_answers = self._listen(consumer.task_consumer.channel)
        self._ticks = bool(consumer.hub)
        self._ticked_at = self._answered_at = self._took_at = self._clock()
        self._connected = True

    def disconnected(self) -> None:
        self._connected = False

    def tick(self) -> None:
        now = self._clock()
        self._ticked_at = now
        taken = state.all_total_count[0]
        if self._busy():  # then it asks for nothing, and hears nothing
            self._answered_at = self._took_at = now
        elif taken != self._taken:
            self._took_at = now
        self._taken = taken

    def _listen(self, channel: Any) -> bool:
        """Redis: what reads the answer to a poll also notes that there was one. Other transports have heartbeats."""
        readers = getattr(channel, "handlers", None)
        read = readers.get("BRPOP") if isinstance(readers, dict) else None
        if not isinstance(readers, dict) or read is None:
            return False

        def read_and_note(**options: Any) -> Any:
            try:
                answer = read(**options)
            except Empty:
                self._answered_at = self._clock()
                raise
            self._answered_at = self._clock()
            return answer

        readers["BRPOP"] = read_and_note
        return True


def consumer_step(watch: ConsumerWatch) -> type[bootsteps.StartStopStep]:
    """For `app.steps["consumer"]`."""

    class Watched(bootsteps.StartStopStep):
        requires = ("celery.worker.consumer.tasks:Tasks",)

        def start(self, parent: Any) -> None:
            watch.connected(parent)

        def stop(self, parent: Any) -> None:  # noqa: ARG002 -- Celery's interface
            watch.disconnected()

        def register_with_event_loop(self, parent: Any, hub: Any) -> None:  # noqa: ARG002 -- Celery's interface
            hub.on_tick.add(watch.tick)
            hub.call_repeatedly(TICK_S, watch.tick)  # its own timers may be ten seconds apart

    return Watched
