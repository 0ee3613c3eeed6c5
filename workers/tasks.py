"""The one Celery task: a wake-up names a run, and the process's event loop works on it."""

import gc
import logging
import threading
from concurrent.futures import CancelledError
from typing import Any

from celery import signals
from celery.concurrency.thread import TaskPool
from pymongo.errors import PyMongoError

from workers.celery import TASK, app, loader
from workers.landmarks import passed
from workers.logs import configure_logging
from workers.metrics_server import serve_metrics
from workers.process import WorkerProcess
from workers.run_loop import execute
from workers.services import with_services
from workers.settings import Settings, SettingsError, load_settings
from workers.wakeups import VERSION
from workflows.models_file import ModelsFileError

log = logging.getLogger(__name__)

_REFUSED_POOLS = ("gevent", "eventlet")


class _Process:
    """The process's worker, made when the process first needs it: after a fork, never before."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._worker: WorkerProcess | None = None
        self._draining = False
        self.exit_code = 0

    def get(self) -> WorkerProcess:
        with self._lock:
            if self._worker is None:
                self._worker = started_worker(role_settings())
            if self._draining:
                self._worker.drain()
            return self._worker

    def drain(self) -> None:
        """Without the lock: this runs in a signal handler, maybe on top of the very `get` that holds it."""
        self._draining = True
        worker = self._worker
        if worker is not None:
            worker.drain()

    def stop(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.stop()


def started_worker(settings: Settings) -> WorkerProcess:
    worker = WorkerProcess(settings)
    try:
        worker.start()
    except BaseException:
        worker.stop()  # or every failed start would leave a loop and its threads behind
        raise
    tune_garbage_collection()
    return worker


def tune_garbage_collection() -> None:
    """What a thousand chats hold is not garbage: looked through less often, they cost a quarter less CPU and no more
    memory (benchmarks/chat.py --tune-gc)."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


process = _Process()


def role_settings() -> Settings:
    return loader().given or with_services(load_settings())


@app.task(name=TASK)
def run(message: dict[str, Any]) -> None:
    if message.get("v") != VERSION or not isinstance(message.get("run_id"), str):
        # A newer version's message: the run document is there, and a worker that knows it gets its own wake-up.
        log.error("unknown_wakeup", extra={"version": message.get("v")})
        return
    passed("woken")
    worker = process.get()
    worker.metrics.working_on(+1)
    try:
        worker.submit(execute(message["run_id"], worker)).result()
    except CancelledError:
        # It was cut off and has handed its run back; a second cancellation came on top.
        log.info("run_task_cancelled", extra={"run_id": message["run_id"]})
    finally:
        worker.metrics.working_on(-1)


@signals.setup_logging.connect
def _configure_logging(**_: Any) -> None:
    settings = role_settings()
    configure_logging(role="worker", log_format=settings.log_format, log_level=settings.log_level)


@signals.celeryd_init.connect
def _refuse_pools(conf: Any, options: dict[str, Any], **_: Any) -> None:
    pool = str(options.get("pool") or conf.worker_pool)
    if any(name in pool for name in _REFUSED_POOLS):
        raise SystemExit(f"the {pool} pool loses acknowledgements on Redis; leave -P out, threads are the default")


@signals.worker_ready.connect
def _ready(sender: Any, **_: Any) -> None:
    # With threads the process is this one: open it now, so that the first run does not wait for imports.
    if isinstance(sender.pool, TaskPool):
        try:
            worker = process.get()
            server = serve_metrics(worker.metrics.registry, worker.settings.metrics_listen)
        except (ModelsFileError, SettingsError, PyMongoError, OSError) as error:
            # Celery would log it and go on consuming what this process cannot work on.
            log.error("worker_cannot_start", extra={"error": str(error)[:300]})
            process.exit_code = 1
            raise SystemExit(1) from None
        log.info("worker_ready", extra={"concurrency": worker.settings.concurrency, "metrics": str(server.address)})


@signals.worker_shutting_down.connect
def _drain(**_: Any) -> None:
    process.drain()


@signals.worker_shutdown.connect
def _stop(**_: Any) -> None:
    process.stop()


@signals.worker_process_shutdown.connect
def _stop_child(**_: Any) -> None:
    process.stop()
