"""A bench for the engine: a store in memory, and a clock, a lease and a shutdown that a test controls."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from accounting.budgets.reservation_types import PlannedCall, Settle, reserve_unlimited
from accounting.ledger.memory_ledger import MemoryLedger
from accounting.usage import ModelCall
from tests.unit.workflows.chats import build_chat
from tests.unit.workflows.packages import load, rule
from workers.engine import execute
from workers.local_run.local_lease import LocalLease
from workers.steps.run_execution import RunExecution
from workers.steps.run_services import NoObserver, RunServices
from workers.store.claimed_runs_in_memory import MemoryRunRepository
from workers.store.run import Claim, HoldKind, RunRequest, RunState, TriggerEvent
from workers.store.run_document import Document
from workers.store.run_repository import RunRepository
from workers.store.run_store_in_memory import MemoryRuns
from workflows.chat.agents.built_packages import BuiltPackage
from workflows.chat.history.transcript import Turn
from workflows.context.context_loader import ContextSources
from workflows.context.documents.document_access import DocumentRead, DocumentWrite
from workflows.context.reads.persistent_states import PersistentState
from workflows.outcome import OutcomeKind

PAIR = {"handoff_rules": [rule("A", "B"), rule("B", "terminate")]}
OVERLOADED = {"error": {"status": 429}}

OnCall = Callable[[PlannedCall], Awaitable[None]]


class CountedEvents(NoObserver):
    def __init__(self) -> None:
        self.names: list[str] = []

    def record_start(self, run: Mapping[str, Any]) -> None:
        self.names.append(f"started {run['attempt']}")

    def record_turn(self, workflow: str, turn: Turn) -> None:
        del workflow
        self.names.append(f"turn of {turn.agent}")

    def record_retry(self, workflow: str, reason: OutcomeKind) -> None:
        del workflow
        self.names.append(f"retried {reason.value}")

    def record_hold(self, kind: HoldKind) -> None:
        self.names.append(f"held {kind.value}")

    def record_end(self, run: Mapping[str, Any], state: RunState) -> None:
        del run
        self.names.append(f"finished {state.value}")

    def record_fenced_write(self) -> None:
        self.names.append("fenced")


class BenchLease(LocalLease):
    def __init__(self) -> None:
        super().__init__()
        self._is_lost = False

    def is_lost(self, claim: Claim) -> bool:
        del claim
        return self._is_lost

    def lose(self) -> None:
        self._is_lost = True
        if self._task is not None:
            self._task.cancel()


class BenchShutdown:
    def __init__(self) -> None:
        self.has_stopped = False
        self.left_s = float("inf")
        self._task: asyncio.Task[Any] | None = None

    def is_stopping(self) -> bool:
        return self.has_stopped

    def seconds_left(self) -> float:
        return self.left_s

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        self._task = asyncio.current_task()
        yield
        self._task = None

    def interrupt(self) -> None:
        self.has_stopped = True
        if self._task is not None:
            self._task.cancel()


class BenchBudgets:
    def __init__(self, on_call: OnCall) -> None:
        self._on_call = on_call

    def __call__(self, **_: Any) -> "BenchBudgets":
        return self

    async def reserve(self, planned: PlannedCall) -> Settle:
        await self._on_call(planned)
        return await reserve_unlimited(planned)

    def holder_of(self, call: ModelCall) -> None:
        del call


async def _do_nothing(_: PlannedCall) -> None: ...


async def _no_document(_: DocumentRead) -> Mapping[str, Any] | None:
    return None


class Bench:
    """`on_call` runs before each model call, in the middle of a turn. `refusal` is raised by the next write."""

    def __init__(self, package: BuiltPackage, *, max_attempts: int = 5) -> None:
        self.now = datetime(2026, 3, 1, tzinfo=UTC)
        self.ledger = MemoryLedger()
        self.store = MemoryRuns(
            clock=lambda: self.now, usage_totals=self.ledger.totals, write_documents=self._write_documents
        )
        self.lease, self.shutdown, self.events = BenchLease(), BenchShutdown(), CountedEvents()
        self.on_call: OnCall = _do_nothing
        self.refusal: Exception | None = None
        self.written: list[DocumentWrite] = []
        self.run_id = ""
        self._package = package
        self._max_attempts = max_attempts

    def _write_documents(self, writes: Sequence[DocumentWrite], states: Sequence[PersistentState]) -> None:
        del states
        if self.refusal is not None:
            raise self.refusal
        self.written += writes

    async def _on_call(self, planned: PlannedCall) -> None:
        await self.on_call(planned)

    async def _get_package(self, workflow: str, *, version: str | None) -> BuiltPackage:
        del workflow, version
        return self._package

    def repository(self, owner: str = "first") -> MemoryRunRepository:
        return MemoryRunRepository(self.store, owner=owner)

    def services(self, repository: RunRepository | None = None, **options: Any) -> RunServices:
        services = RunServices(
            repository=repository or self.repository(),
            get_package=self._get_package,
            context_sources=ContextSources({}, production=False, include_schema=True, read_document=_no_document),
            ledger=self.ledger,
            events=self.events,
            lease=self.lease,
            shutdown=self.shutdown,
            open_budgets=BenchBudgets(self._on_call),
            random=lambda: 0.5,
            max_attempts=self._max_attempts,
            store_retry_s=0.0,
        )
        return replace(services, **options)

    async def accept(self, **fields: Any) -> str:
        event = TriggerEvent("webhook", "hook", str(len(self.store.runs)), fired_at=self.now)
        request = RunRequest(**{"app_id": "acme", "workflow": "Small", "trigger": event, **fields})
        self.run_id = (await self.store.insert(request)).run_id
        return self.run_id

    async def execute(self, services: RunServices | None = None) -> RunExecution:
        """Claims the run that was accepted last, as one owner, and executes it."""
        services = services or self.services()
        claim = await services.repository.claim(self.run_id)
        assert claim is not None, self.run
        return await execute(claim, services)

    def pass_time(self, **time: float) -> None:
        self.now += timedelta(**time)

    @property
    def run(self) -> Document:
        return self.store.runs[self.run_id]

    @property
    def state(self) -> str:
        return str(self.run["state"])

    @property
    def speakers(self) -> list[str]:
        """Returns the agents of the counted turns."""
        numbers = range(1, self.run["turn"] + 1)
        return [self.store.turns[f"{self.run_id}:{number}"]["agent"] for number in numbers]

    @property
    def called_agents(self) -> list[str]:
        """Returns the agents of the model calls, in order."""
        return [call.agent for call in self.ledger.calls]


async def bench_of(folder: Path, answers: Mapping[str, Any], *, max_attempts: int = 5, **files: Any) -> Bench:
    package = load(folder / "Small", **{"handoffs": PAIR, **files})
    bench = Bench(build_chat(package, answers, folder / "Small"), max_attempts=max_attempts)
    await bench.accept()
    return bench
