"""A worker process: one event loop in its own thread, and the services that all its runs share.

Celery's pool threads only wait. Clients of MongoDB and of the models are bound to their event loop, so there is one
loop for the life of the process, never one per task.

A tool may fork the worker. A forked copy has no threads, so it renews no lease and takes no wake-up. `drop_all` drops
the rest of what it inherits, and `forked_copies` ends the copy when it returns from its tool.
"""

import asyncio
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import uuid4

from pymongo.asynchronous.database import AsyncDatabase

from accounting.budgets.budget import Unit
from accounting.budgets.budget_service import BudgetService
from accounting.budgets.run_reservations import RunBudgets
from accounting.budgets.window_accounts import ReserverIdentity
from accounting.ledger.ledger import Ledger
from accounting.prices import PriceTable
from workers.admission.claim_lanes import Lanes
from workers.admission.limits.all_limits import AllLimits
from workers.admission.limits.budget_limit import BudgetAdmission
from workers.admission.run_admission import Admission
from workers.broker.publisher import Publisher
from workers.broker.wakeups import Wakeups
from workers.celery import app
from workers.hidden_values import values_of_environment, values_of_models, values_of_packages
from workers.logs import redact_logs, redact_streams
from workers.process.event_loop import WorkerLoop
from workers.process.heartbeat import Heartbeat
from workers.process.isolated_processes import ISOLATION_SLOTS, IsolatedProcesses
from workers.process.package_builds import PackageBuilds
from workers.process.role_health import StorePulse
from workers.process.watchdog import Watchdog, exit_stuck_process
from workers.process.worker_metrics import WorkerMetrics
from workers.settings import Settings
from workers.steps.run_services import RunServices
from workers.store.claimed_runs import MongoRunRepository, find_timeout_s
from workers.store.context_documents import ContextDocuments
from workers.store.persistent_state_store import PersistentStateStore
from workers.store.run_store import RunStore, connect
from workers.store.tool_databases import ToolDatabases
from workers.tracing.tracing import NO_TRACING, Tracing, open_tracing
from workers.worker_timings import WorkerTimings
from workflows.chat.agents.built_packages import PackageCache
from workflows.chat.package_code.forked_copies import add_child_hook
from workflows.chat.package_code.tool_threads import ToolThreads
from workflows.chat.package_code.working_directory import WORKING_DIRECTORY
from workflows.chat.providers.model_registry import ModelRegistry
from workflows.context.context_loader import ContextSources
from workflows.context.external.external_reader import ExternalReader
from workflows.context.redaction import Redactor
from workflows.models_file import find_models_path, read_models_file
from workflows.operator_file import find_operator_path, read_operator_file
from workflows.package.catalog import LIBRARY, Catalog, package_directories
from workflows.package.normal_form.package_model import Package

TOOL_THREADS = 64
# A deploy waits for turns during the grace period. Then they are cut off, and runs are handed back in this time.
HAND_BACK_TIMEOUT_S = 1.5
DRAIN_TIMEOUT_S = 1.0
_SIGNALS = (signal.SIGTERM, signal.SIGQUIT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCHLD)


class WorkerProcess:
    def __init__(
        self,
        settings: Settings,
        metrics: WorkerMetrics | None = None,
        *,
        isolation_slots: int = ISOLATION_SLOTS,
        timings: WorkerTimings | None = None,
    ) -> None:
        """`isolation_slots`: the maximum of concurrent suspects, each in a process of its own."""
        self.settings = settings
        self._isolation_slots = isolation_slots
        self.metrics = metrics or WorkerMetrics()
        self._timings = timings or WorkerTimings()
        self.stuck_s = self._timings.stuck_s(settings.lease_s)
        self.redactor = Redactor()
        self._is_stopping = False  # no Event: signal handlers set it, and may interrupt each other
        self._stop_by = float("inf")
        self._loop = WorkerLoop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="runs", daemon=True)
        self._tool_threads = ToolThreads(TOOL_THREADS)
        self._tasks: set[asyncio.Task[Any]] = set()
        self.tracing: Tracing = NO_TRACING
        self._exit_stack = ExitStack()  # closed by `stop` in reverse order, also after a failed start

    def start(self) -> None:
        WORKING_DIRECTORY.pin()
        self._exit_stack.callback(WORKING_DIRECTORY.unpin)
        models = read_models_file(find_models_path(self.settings.models, library=LIBRARY))
        self._operator = read_operator_file(
            find_operator_path(self.settings.config), own_database=self.settings.database
        )
        self.redactor.hide(values_of_models(models.models, self.settings))
        self.redactor.hide(values_of_environment(self.settings))
        redact_logs(self.redactor)
        self._exit_stack.enter_context(redact_streams(self.redactor))
        self._exit_stack.callback(self._tool_threads.close)
        self.tracing = open_tracing(self.settings, role="worker", redactor=self.redactor)
        self._exit_stack.callback(self.tracing.close)
        self._thread.start()
        self._exit_stack.callback(self._stop_loop)
        self.submit(self._open(models.prices)).result()
        catalog = Catalog(package_directories(self.settings.packages))
        self._on_packages(catalog.packages())  # read now, so that errors are in the log before a run needs them
        chat_models = ModelRegistry(models.models, self.settings.resolve_secret)
        self._exit_stack.callback(lambda: self.submit(chat_models.close()).result(timeout=5))
        agents = PackageCache(chat_models, self._tool_threads, self._databases)
        self._builds = PackageBuilds(catalog, agents, on_packages=self._on_packages, environment=self.settings.environ)
        self._exit_stack.callback(self._builds.close)
        self.heartbeat = Heartbeat(
            url=self.settings.mongodb_url or "",
            database=self.settings.database,
            lease_s=self.settings.lease_s,
            on_lost=self.metrics.record_lease_lost,
        )
        self.heartbeat.start()
        self._exit_stack.callback(self.heartbeat.stop)
        drops = (self.heartbeat.drop, self.isolated.drop)
        self._exit_stack.callback(add_child_hook(partial(drop_all, drops)))
        self.services = self._services()
        self.watchdog = Watchdog(self._loop, patience_s=self.stuck_s, on_stuck=exit_stuck_process)
        self.watchdog.start()
        self._exit_stack.callback(self.watchdog.stop)

    def _services(self) -> RunServices:
        return RunServices(
            repository=self.repository,
            get_package=self._builds.get,
            context_sources=self._context_sources,
            ledger=self.ledger,
            events=self.metrics,
            lease=self.heartbeat,
            shutdown=self,
            redactor=self.redactor,
            prices=self._prices,
            open_budgets=self._open_budgets,
            tracing=self.tracing,
            max_attempts=self.settings.max_attempts,
            lease_s=self.settings.lease_s,
            verbose_debug=self.settings.verbose_debug,
        )

    def _open_budgets(
        self, *, app_id: str, workflow: str, amount_used: Callable[[Unit], int], has_begun: Callable[[], bool]
    ) -> RunBudgets:
        # Spelled out, not a partial: the type checker then compares these names with `OpenBudgets`.
        return RunBudgets(self.budgets, app_id=app_id, workflow=workflow, amount_used=amount_used, has_begun=has_begun)

    async def _open(self, prices: PriceTable) -> None:
        database = connect(self.settings.mongodb_url or "", database=self.settings.database)
        self._exit_stack.callback(lambda: self.submit(database.client.close()).result(timeout=5))
        self.store = RunStore(database, republish_after_s=self.settings.republish_after_s)
        self._open_accounting(database, prices)
        states = PersistentStateStore(database, keep=timedelta(days=self.settings.retention_days.ledger))
        self.repository = MongoRunRepository(
            self.store, owner=owner_name(), lease_s=self.settings.lease_s, versions=self._versions, states=states
        )
        self.wakeups = wakeups = Wakeups(Publisher(app))
        wakeups.start()
        self._exit_stack.callback(lambda: self.submit(wakeups.stop()).result(timeout=6))
        self.isolated = IsolatedProcesses(
            self.settings,
            self.store,
            self.repository,
            self.metrics,
            slots=self._isolation_slots,
            timings=self._timings.isolation,
        )
        self._exit_stack.callback(self.isolated.close)
        self.admission = Admission(
            AllLimits(self.settings.caps, self.store, budgets=BudgetAdmission(self.budgets)),
            self.repository,
            wakeups,
            has_caps=bool(self.settings.caps),
            on_held=self.metrics.record_hold,
            on_fenced=self.metrics.record_fenced_write,
            on_refused=self.metrics.record_end,
        )
        self.lanes = Lanes(self.repository, self.admission, self.is_stopping, isolation_slots=self.isolated)
        self._open_context_sources(database, states)
        self._open_package_databases(database)
        await self.store.ensure_indexes()
        await states.ensure_indexes()
        await self.ledger.ensure_indexes()
        await self.budgets.open()
        self.store_pulse = StorePulse(lambda: database.command("ping"))
        pulse = self._loop.create_task(self.store_pulse.ping_forever(), name="store pulse")
        self._exit_stack.callback(lambda: self._loop.call_soon_threadsafe(pulse.cancel))

    def _open_package_databases(self, database: AsyncDatabase[dict[str, Any]]) -> None:
        self._databases = ToolDatabases(
            self._operator.compat.databases,
            own_database=self.settings.database,
            connect=lambda: database.client,
            loop=self._loop,
        )

    def _open_context_sources(self, database: AsyncDatabase[dict[str, Any]], states: PersistentStateStore) -> None:
        documents = ContextDocuments(
            database.client,
            own_database=self.settings.database,
            find_timeout_s=find_timeout_s(self.settings.lease_s),
        )
        external = ExternalReader(
            allowed_hosts=self.settings.external_hosts, resolve_secret=self.settings.resolve_secret
        )
        self._exit_stack.callback(lambda: self.submit(external.close()).result(timeout=5))
        self._context_sources = ContextSources(
            environment=self.settings.context_environment(),
            production=self.settings.production,
            include_schema=self.settings.include_schema,
            read_document=documents.read,
            read_external=external.read,
            check_writable=documents.check_writable,
            read_states=states.read,
        )

    def _open_accounting(self, database: AsyncDatabase[dict[str, Any]], prices: PriceTable) -> None:
        self._prices = prices
        holder, fails_open = ReserverIdentity(), self.settings.budgets_fail == "open"
        self.budgets = BudgetService(database, prices, holder, fails_open=fails_open)
        self._exit_stack.callback(lambda: self.submit(self.budgets.close()).result(timeout=5))
        self.ledger = Ledger(database, prices, holder=lambda: holder.id, fails_closed=not fails_open)
        self._exit_stack.callback(lambda: self.submit(self.ledger.drain(timeout_s=DRAIN_TIMEOUT_S)).result(timeout=5))

    def _on_packages(self, packages: Mapping[str, Package]) -> None:
        self.metrics.add_workflows(packages)
        self.redactor.hide(values_of_packages(packages.values(), self.settings))

    def submit(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def _versions(self) -> Mapping[str, str]:
        return self._builds.versions()

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Cuts the current task off when the grace period of the stop is over."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("only a task can be interrupted")
        self._tasks.add(task)
        try:
            yield
        finally:
            self._tasks.discard(task)

    def is_stopping(self) -> bool:
        return self._is_stopping

    def drain(self) -> None:
        """Lets runs finish their turn, checkpoints them and hands them back.

        Turns that take too long are cut off.
        """
        if not self._is_stopping:
            self._stop_by = time.monotonic() + self.settings.grace_s + HAND_BACK_TIMEOUT_S
            self._is_stopping = True
            self.isolated.drain()
            self._loop.call_soon_threadsafe(self._loop.call_later, self.settings.grace_s, self._interrupt)

    def drain_at_once(self) -> None:
        """Cuts turns off: a second signal asks for a stop without the grace period."""
        self.drain()
        self.isolated.drain(at_once=True)
        self._loop.call_soon_threadsafe(self._interrupt)

    def seconds_left(self) -> float:
        """Returns the time that is left to hand a run back."""
        return self._stop_by - time.monotonic()

    def _interrupt(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:  # repeated, since libraries under a chat may swallow a cancellation
            self._loop.call_later(1, self._interrupt)

    def stop(self) -> None:
        self._is_stopping = True
        self._exit_stack.close()

    def _stop_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=5)
        if not self._thread.is_alive():
            self._loop.close()


def owner_name() -> str:
    """Returns a unique name, even if process ids repeat.

    The worker in a container is always process 1.
    """
    return f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:8]}"


def drop_all(drops: Iterable[Callable[[], None]]) -> None:
    """Runs all drops in a forked copy. A failing one does not stop the others."""
    for drop in (reset_signals, *drops):
        with suppress(Exception):
            drop()


def reset_signals() -> None:
    """Resets the signal handlers.

    Those of a worker start a drain, which a copy never finishes: `multiprocessing.Process.terminate` would wait for
    ever.
    """
    signal.set_wakeup_fd(-1)
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
