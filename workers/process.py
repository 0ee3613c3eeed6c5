"""A worker process: one event loop in a thread of its own, and what all runs in the process share.

Celery's pool threads only wait. Clients of MongoDB and of the models are bound to the loop they were made
on, so there is exactly one loop for the life of the process, never one per task.
"""

import asyncio
import os
import socket
import threading
from collections.abc import Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any
from uuid import uuid4

from pymongo import DESCENDING
from pymongo.errors import OperationFailure

from accounting.ledger import Ledger
from workers.heartbeat import Heartbeat
from workers.ownership import Ownership
from workers.run_store import RunStore, connect
from workers.settings import Settings
from workers.worker_metrics import WorkerMetrics
from workflows.chat.agents import AgentShop
from workflows.chat.models import Models
from workflows.context.loading import ContextSources, ReadRefusedError
from workflows.models_file import models_path, read_models_file
from workflows.package.catalog import LIBRARY, Catalog, package_directories

TOOL_THREADS = 64


class WorkerProcess:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.metrics = WorkerMetrics()
        self._stopping = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="runs", daemon=True)
        self._tool_threads = ThreadPoolExecutor(TOOL_THREADS, thread_name_prefix="tools")
        self._opened = ExitStack()  # what `stop` closes, in reverse; also of a start that failed half-way

    def start(self) -> None:
        models = read_models_file(models_path(self.settings.models, library=LIBRARY))
        self._opened.callback(self._tool_threads.shutdown, wait=False, cancel_futures=True)
        self._thread.start()
        self._opened.callback(self._stop_loop)
        self.submit(self._open(models.prices)).result()
        self.catalog = Catalog(package_directories(self.settings.packages))
        self.catalog.packages()  # read now: what is refused is in the log before the first run needs it
        self.agents = AgentShop(Models(models.models, self.settings.resolve_secret), self._tool_threads)
        self.heartbeat = Heartbeat(
            url=self.settings.mongodb_url or "",
            database=self.settings.database,
            lease_s=self.settings.lease_s,
            on_lost=self.metrics.lease_lost,
        )
        self.heartbeat.start()
        self._opened.callback(self.heartbeat.stop)

    async def _open(self, prices: Any) -> None:
        database = connect(self.settings.mongodb_url or "", database=self.settings.database)
        self._opened.callback(lambda: self.submit(database.client.close()).result(timeout=5))
        self.store = RunStore(database, republish_after_s=self.settings.republish_after_s)
        self.ledger = Ledger(database, prices)
        self.ownership = Ownership(self.store, owner=owner_name(), lease_s=self.settings.lease_s)
        self.context_sources = ContextSources(
            environment=self.settings.context_environment(),
            production=self.settings.production,
            include_schema=self.settings.include_schema,
            read_document=self._read_document,
        )
        await self.store.ensure_indexes()
        await self.ledger.ensure_indexes()

    def submit(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def stopping(self) -> bool:
        return self._stopping.is_set()

    def drain(self) -> None:
        """Runs in progress finish their turn, are checkpointed and handed back."""
        self._stopping.set()

    def stop(self) -> None:
        self.drain()
        self._opened.close()

    def _stop_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=5)
        self._loop.close()

    def package_places(self) -> str:
        return ", ".join(map(str, self.catalog.directories))

    async def _read_document(
        self, database: str, collection: str, query: Mapping[str, Any], fields: tuple[str, ...]
    ) -> Mapping[str, Any] | None:
        """The newest document that matches, projected on the server to the named fields."""
        found = self.store.database.client[database][collection]
        projection = {"_id": "_id" in fields, **dict.fromkeys(fields, True)}
        try:
            return await found.find_one(dict(query), projection, sort=[("_id", DESCENDING)])
        except OperationFailure as error:
            raise ReadRefusedError(str(error.details.get("errmsg") if error.details else error)) from None


def owner_name() -> str:
    """Unique even when process ids repeat: a container's worker is always process 1."""
    return f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:8]}"
