"""The health of a worker process.

It is alive while its threads run, and ready while it consumes and reaches MongoDB. A check costs nothing and never
waits: a thread of its own queries the broker all the time. If the broker answers that thread and the consumer takes
nothing for minutes, the consumer is dead, and the process ends.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from celery import Celery
from kombu import Connection

from workers.broker.queue_depth import count_messages
from workers.process.consumer_watch import ConsumerWatch, find_problems, find_stuck_problems
from workers.process.role_health import Health, loop_problems
from workers.worker_timings import ConsumerTimings

if TYPE_CHECKING:
    from workers.process.worker import WorkerProcess

log = logging.getLogger(__name__)

CONNECT_TIMEOUT_S = 5
BROKER_PATIENCE_S = 15.0
MAX_LEASES_WITHOUT_BEAT = 2


class BrokerProbe:
    """Counts the waiting messages over a connection of its own."""

    def __init__(self, app: Celery) -> None:
        self._app = app
        self._connection: Connection | None = None

    def count_waiting(self) -> int:
        """Counts the messages.

        Raises the errors of the transport, and blocks as long as the transport does.
        """
        if self._connection is None:
            self._connection = self._app.connection_for_read()
        connection, queue = self._connection, self._app.conf.task_default_queue
        try:
            connection.ensure_connection(max_retries=1, timeout=CONNECT_TIMEOUT_S)
            return count_messages(connection, queue)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.collect()


class WorkerHealth:
    def __init__(
        self,
        consumer: ConsumerWatch,
        ask_broker: Callable[[], int],
        on_dead: Callable[[], None],
        *,
        timings: ConsumerTimings,
    ) -> None:
        self._consumer = consumer
        self._timings = timings
        self._ask_broker = ask_broker
        self._on_dead = on_dead
        self._worker: WorkerProcess | None = None
        self._broker_answered_at = time.monotonic()
        self._idle_since: float | None = None
        self._thread = threading.Thread(target=self._watch, name="health", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def attach(self, worker: "WorkerProcess") -> None:
        self._worker = worker

    def health(self) -> Health:
        return Health(live=self.find_live_problems, ready=self.find_ready_problems)

    def find_live_problems(self) -> Sequence[str]:
        worker = self._worker
        if worker is None or worker.is_stopping():  # the shutdown deadline ends a worker that does not stop
            return ()
        silent_s, patience_s = worker.heartbeat.silent_s(), worker.stuck_s / 2
        silence_limit_s = max(worker.settings.lease_s * MAX_LEASES_WITHOUT_BEAT, 30)
        return [
            *loop_problems(worker.watchdog.stalled_s(), patience_s=patience_s),
            *([f"the heartbeat has stood still for {silent_s:.0f} s"] if silent_s > silence_limit_s else []),
            *find_stuck_problems(self._consumer.status(), self._timings),
        ]

    def find_ready_problems(self) -> Sequence[str]:
        worker = self._worker
        if worker is None:
            return ("the worker is starting",)
        if worker.is_stopping():
            return ("the worker is stopping",)
        silent_s = time.monotonic() - self._broker_answered_at
        return [
            *self.find_live_problems(),
            *worker.store_pulse.check(),
            *([f"the broker has not answered for {silent_s:.0f} s"] if silent_s > BROKER_PATIENCE_S else []),
            *find_problems(self._consumer.status(), self._timings),
        ]

    def _watch(self) -> None:
        while True:
            has_answer = self._probe_broker()
            if self._is_dead(has_answer=has_answer):
                self._on_dead()
                return
            time.sleep(self._timings.probe_interval_s)

    def _probe_broker(self) -> bool:
        try:
            waiting = self._ask_broker()
        except Exception as error:  # noqa: BLE001 -- each transport raises errors of its own, which all mean the same here
            log.debug("broker_does_not_answer", extra={"error": type(error).__name__})
            return False
        self._broker_answered_at = time.monotonic()
        if waiting == 0:
            self._consumer.record_empty_queue()
        return True

    def _is_dead(self, *, has_answer: bool) -> bool:
        """Checks whether the consumer is dead.

        It is, if for minutes nothing else explains that it takes no message.
        """
        worker, now = self._worker, time.monotonic()
        problems = find_problems(self._consumer.status(), self._timings)
        if worker is None or worker.is_stopping() or not has_answer or not problems:
            self._idle_since = None
            return False
        self._idle_since = self._idle_since or now
        if now - self._idle_since < self._timings.dead_after_s:
            return False
        log.critical("consumer_dead", extra={"problems": list(problems), "seconds": round(now - self._idle_since)})
        return True
