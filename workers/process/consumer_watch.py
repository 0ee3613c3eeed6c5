"""The consumer watch: whether the Celery consumer really takes messages.

A consumer may wait for ever on a broken connection, or hang between two connections, while its process looks healthy.
So it has to give signs:

1. A step in the consumer is started with each connection and stopped when it is lost.
2. Its event loop ticks at least every two seconds, and the broker answers each of its polls (Redis: within a second).
3. While it has room and its queue is not empty, it takes messages. The worker reads the length of the queue, and
   whether the broker answers at all, over a connection of its own.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import Empty
from typing import Any

from celery import bootsteps
from celery.worker import state

from workers.worker_timings import ConsumerTimings


@dataclass(frozen=True, slots=True)
class ConsumerStatus:
    """The signs of a consumer; times are seconds since.

    None if its transport gives no such sign.
    """

    is_connected: bool
    since_tick_s: float | None
    since_answer_s: float | None
    since_take_s: float  # since it took a message, or had no reason to


def find_problems(status: ConsumerStatus, timings: ConsumerTimings) -> Sequence[str]:
    if not status.is_connected:
        return ("the consumer is not connected to its broker",)
    problems = []
    if (status.since_tick_s or 0) > timings.tick_patience_s:
        problems.append(f"the consumer has stood still for {status.since_tick_s:.0f} s")
    if (status.since_answer_s or 0) > timings.answer_patience_s:
        problems.append(f"the broker has not answered the consumer for {status.since_answer_s:.0f} s")
    if status.since_take_s > timings.take_patience_s:
        problems.append(f"the consumer has room and has taken no waiting message for {status.since_take_s:.0f} s")
    return problems


def find_stuck_problems(status: ConsumerStatus, timings: ConsumerTimings) -> Sequence[str]:
    """Finds signs that the consumer thread hangs.

    A consumer without a connection waits for one, which is no fault of the process.
    """
    if status.is_connected and (status.since_tick_s or 0) > timings.stuck_s:
        return (f"the consumer thread has stood still for {status.since_tick_s:.0f} s",)
    return ()


class ConsumerWatch:
    """The signs of the consumer.

    Its thread writes them, others read them, each value alone and so without a lock.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._is_connected = False
        self._has_ticks = False
        self._has_answer_times = False
        self._ticked_at = self._answered_at = self._took_at = clock()
        self._taken_count = 0
        self._is_busy: Callable[[], bool] = lambda: False

    def status(self) -> ConsumerStatus:
        now = self._clock()
        return ConsumerStatus(
            is_connected=self._is_connected,
            since_tick_s=now - self._ticked_at if self._has_ticks else None,
            since_answer_s=now - self._answered_at if self._has_answer_times else None,
            since_take_s=now - self._took_at,
        )

    def record_empty_queue(self) -> None:
        self._took_at = self._clock()

    def on_connected(self, consumer: Any) -> None:
        def is_busy() -> bool:
            limit = getattr(consumer.controller, "max_concurrency", None) or consumer.pool.num_processes
            return len(state.reserved_requests) >= int(limit)

        self._is_busy = is_busy
        self._has_answer_times = self._watch_answers(consumer.task_consumer.channel)
        self._has_ticks = bool(consumer.hub)
        self._ticked_at = self._answered_at = self._took_at = self._clock()
        self._is_connected = True

    def on_disconnected(self) -> None:
        self._is_connected = False

    def on_tick(self) -> None:
        now = self._clock()
        self._ticked_at = now
        taken = state.all_total_count[0]
        if self._is_busy():  # a busy consumer does not poll, so the broker does not answer
            self._answered_at = self._took_at = now
        elif taken != self._taken_count:
            self._took_at = now
        self._taken_count = taken

    def _watch_answers(self, channel: Any) -> bool:
        """Records when the broker answers polls of Redis.

        It wraps the method that reads the reply. Other transports have heartbeats.
        """
        readers = getattr(channel, "handlers", None)
        read = readers.get("BRPOP") if isinstance(readers, dict) else None
        if not isinstance(readers, dict) or read is None:
            return False

        def read_and_record(**options: Any) -> Any:
            try:
                answer = read(**options)
            except Empty:
                self._answered_at = self._clock()
                raise
            self._answered_at = self._clock()
            return answer

        readers["BRPOP"] = read_and_record
        return True


def create_consumer_step(watch: ConsumerWatch, *, tick_s: float) -> type[bootsteps.StartStopStep]:
    """Creates the step for `app.steps["consumer"]`."""

    class Watched(bootsteps.StartStopStep):
        requires = ("celery.worker.consumer.tasks:Tasks",)

        def start(self, parent: Any) -> None:
            watch.on_connected(parent)

        def stop(self, parent: Any) -> None:  # noqa: ARG002 -- Celery's interface
            watch.on_disconnected()

        def register_with_event_loop(self, parent: Any, hub: Any) -> None:  # noqa: ARG002 -- Celery's interface
            hub.on_tick.add(watch.on_tick)
            hub.call_repeatedly(tick_s, watch.on_tick)  # its own timers may be ten seconds apart

    return Watched
