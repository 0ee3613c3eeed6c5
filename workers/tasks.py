"""The one Celery task: a wake-up, after which the event loop executes a run."""

import gc
import logging
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import Any

from celery import signals
from celery.concurrency.thread import TaskPool
from celery.platforms import EX_OK
from celery.worker import state
from pymongo.errors import PyMongoError

from workers.broker.publisher import TASK, VERSION
from workers.celery import app, settings_loader
from workers.crash_points import crash_point
from workers.logs import configure_logging
from workers.process.consumer_watch import ConsumerWatch, create_consumer_step
from workers.process.memory_watch import MemoryWatch
from workers.process.metrics_server import MetricsServer, serve_metrics
from workers.process.shutdown import ShutdownDeadline
from workers.process.wakeup_handler import handle_wakeup
from workers.process.watchdog import EXIT_CODE
from workers.process.worker import WorkerProcess
from workers.process.worker_health import BrokerProbe, WorkerHealth
from workers.process.worker_metrics import WorkerMetrics
from workers.settings import Settings, SettingsError
from workers.worker_timings import WorkerTimings
from workflows.chat.package_code.forked_copies import add_child_hook
from workflows.models_file import ModelsFileError
from workflows.operator_file import OperatorFileError

log = logging.getLogger(__name__)

_REFUSED_POOLS = ("gevent", "eventlet")


class _ProcessWorker:
    """The worker of this process, created on first use: after a fork, never before."""

    def __init__(self, timings: WorkerTimings) -> None:
        self._lock = threading.Lock()
        self.timings = timings
        self._worker: WorkerProcess | None = None
        self._is_draining = False
        self._active_runs: set[object] = set()
        self.exit_code = 0
        self.server: MetricsServer | None = None
        self.metrics = WorkerMetrics()
        self.shutdown = ShutdownDeadline(lambda: len(self._active_runs))
        self.consumer = ConsumerWatch()
        self.health = WorkerHealth(
            self.consumer,
            BrokerProbe(app).count_waiting,
            on_dead=self._on_consumer_dead,
            timings=timings.consumer,
        )

    def get_worker(self) -> WorkerProcess:
        with self._lock:
            if self._worker is None:
                self._worker = start_worker(settings_loader().settings(), self.metrics, self.timings)
            if self._is_draining:
                self._worker.drain()
            return self._worker

    @contextmanager
    def track_run(self) -> Iterator[None]:
        """Counts a run while it may be held here.

        The process does not end before the run is handed back.
        """
        run = object()
        self._active_runs.add(run)
        self.metrics.add_active_runs(+1)
        try:
            yield
        finally:
            self.metrics.add_active_runs(-1)
            self._active_runs.discard(run)

    def drain(self, *, at_once: bool = False) -> None:
        """Drains the worker.

        It takes no lock: it runs in a signal handler, maybe on top of the very `get_worker` that holds the lock.
        """
        self._is_draining = True
        self.shutdown.begin()
        worker = self._worker
        if worker is not None:
            worker.drain_at_once() if at_once else worker.drain()

    def _on_consumer_dead(self) -> None:
        self.shutdown.begin_with_code(EXIT_CODE)
        self.drain()

    def stop(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.stop()


def start_worker(settings: Settings, metrics: WorkerMetrics, timings: WorkerTimings) -> WorkerProcess:
    worker = WorkerProcess(settings, metrics, timings=timings)
    try:
        worker.start()
    except BaseException:
        worker.stop()  # otherwise each failed start would leave a loop and its threads behind
        raise
    tune_garbage_collection()
    return worker


def tune_garbage_collection() -> None:
    """Makes garbage collections rarer.

    The objects of a thousand chats are no garbage. Collected less often they cost a quarter less CPU, with the same
    memory (benchmarks/chat.py --tune-gc).
    """
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


process = _ProcessWorker(settings_loader().timings)
app.steps["consumer"].add(create_consumer_step(process.consumer, tick_s=process.timings.consumer.tick_s))


@app.task(name=TASK)
def run(message: dict[str, Any]) -> None:
    if message.get("v") != VERSION or not isinstance(message.get("run_id"), str):
        # A message of a newer version: its run document exists, and a worker of that version gets another wake-up.
        log.error("unknown_wakeup", extra={"version": message.get("v")})
        return
    crash_point("woken")
    worker = process.get_worker()
    with process.track_run():
        try:
            worker.submit(handle_wakeup(message["run_id"], worker)).result()
        except CancelledError:
            # The run was cut off and handed back; a second cancellation arrived meanwhile.
            log.info("run_task_cancelled", extra={"run_id": message["run_id"]})


@signals.setup_logging.connect
def _configure_logging(logfile: str | None = None, **_: Any) -> None:
    """Configures logging. `logfile` comes from --logfile.

    Without it, --detach and `celery multi` would discard the log.
    """
    settings = settings_loader().settings()
    configure_logging(role="worker", log_format=settings.log_format, log_level=settings.log_level, log_file=logfile)


@signals.celeryd_init.connect
def _refuse_pools(conf: Any, options: dict[str, Any], **_: Any) -> None:
    pool = str(options.get("pool") or conf.worker_pool)
    if any(name in pool for name in _REFUSED_POOLS):
        raise SystemExit(f"the {pool} pool loses acknowledgements on Redis; omit -P to use threads, the default")


@signals.celeryd_after_setup.connect
def _serve_probes(instance: Any, **_: Any) -> None:
    # Before the broker connects, for which Celery waits without limit: the process is alive, but not ready.
    if issubclass(instance.pool_cls, TaskPool):
        with _exit_on_start_error():
            settings = settings_loader().settings()
            process.server = serve_metrics(process.metrics.registry, settings.metrics_listen, process.health.health())
            add_child_hook(process.server.drop)
        process.shutdown.start(grace_s=settings.grace_s)


@signals.worker_ready.connect
def _on_worker_ready(sender: Any, **_: Any) -> None:
    # With threads this is the working process: prepare it now, so that the first run does not wait for imports.
    if isinstance(sender.pool, TaskPool):
        install_signal_handlers()
        with _exit_on_start_error():
            worker = process.get_worker()
        process.metrics.set_slots(sender.pool.num_processes)
        process.health.attach(worker)
        process.health.start()
        limit_mb, timings = worker.settings.max_memory_mb, process.timings.memory
        MemoryWatch(limit_mb=limit_mb, restart=stop_by_signal, timings=timings).start()
        address = str(process.server.address) if process.server else None
        log.info("worker_ready", extra={"concurrency": sender.pool.num_processes, "metrics": address})


@contextmanager
def _exit_on_start_error() -> Iterator[None]:
    try:
        yield
    except (ModelsFileError, OperatorFileError, SettingsError, PyMongoError, OSError) as error:
        # Celery would log it and go on consuming runs that this process cannot execute.
        log.error("worker_cannot_start", extra={"error": str(error)[:300]})
        process.exit_code = 1
        raise SystemExit(1) from None


def install_signal_handlers() -> None:
    """Replaces the handlers of SIGQUIT, SIGHUP and SIGINT; that of SIGTERM is right.

    SIGQUIT and a second SIGINT of Celery would leave runs to their leases, since no thread can be terminated. Its
    SIGHUP would wait for chats to end and restart the process without its command line.
    """
    signal.signal(signal.SIGQUIT, lambda *_: _stop_consuming(at_once=True))
    signal.signal(signal.SIGHUP, lambda *_: _stop_consuming(at_once=False))
    signal.signal(signal.SIGINT, lambda *_: _stop_consuming(at_once=state.should_stop is not None))


def _stop_consuming(*, at_once: bool) -> None:
    process.drain(at_once=at_once)
    state.should_stop = EX_OK  # type: ignore[assignment]  # its stub has only the first value


def stop_by_signal() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


@signals.worker_shutting_down.connect
def _drain(**_: Any) -> None:
    process.drain()


@signals.worker_shutdown.connect
def _stop(**_: Any) -> None:
    process.stop()


@signals.worker_process_shutdown.connect
def _stop_child(**_: Any) -> None:
    process.stop()
