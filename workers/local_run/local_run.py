"""A local run: the engine works on one run in this process, with a store in memory."""

import asyncio
import random
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from accounting.ledger.memory_ledger import MemoryLedger
from workers.engine import execute
from workers.local_run.local_lease import LocalLease, NeverStops
from workers.local_run.local_request import Watch, WrongUseError
from workers.local_run.report import RunReport, TurnReport, call_report, turn_report, write_report
from workers.local_run.run_notes import pause_note, question_notes, state_note, write_note
from workers.local_run.run_plan import Plan
from workers.steps.retry_policy import Requeue
from workers.steps.run_execution import RunExecution
from workers.steps.run_services import NoObserver, RunServices
from workers.store.claimed_runs_in_memory import MemoryRunRepository
from workers.store.run import RunState
from workers.store.run_document import Document
from workers.store.run_store_in_memory import MemoryRuns
from workers.store.storable import NotStorableError, as_storable
from workflows.chat.agents.built_packages import BuiltPackage, build_package
from workflows.chat.chat_errors import PackageDefect
from workflows.chat.history.transcript import Turn
from workflows.chat.package_code.invocation import PackageCodeError, TimedOutError, invoke
from workflows.context.context_loader import ContextSources, RunContext, load_context
from workflows.context.documents.document_access import DocumentWrite
from workflows.context.reads.persistent_states import PersistentState
from workflows.context.run_facts import RunFacts
from workflows.outcome import Outcome, OutcomeKind
from workflows.package.environment_requirements import missing_environment_error
from workflows.package.normal_form.package_model import Package

MAX_CANCELS = 10
CLOSE_TIMEOUT_S = 60.0
BUILD_TIMEOUT_S = 60.0
CALLER = "its caller"


class LocalRun:
    """Runs the engine once. A report exists in every state, even if the run was cut off."""

    def __init__(self, plan: Plan, watch: Watch) -> None:
        self._plan, self._watch = plan, watch
        self._ledger = MemoryLedger(plan.environment.prices)
        self._skipped = timedelta(0)  # the waits between attempts
        self._store = MemoryRuns(
            clock=lambda: datetime.now(UTC) + self._skipped,
            usage_totals=self._ledger.totals,
            write_documents=self._collect_writes,
        )
        self._repository = MemoryRunRepository(self._store, owner="local")
        self._lease = LocalLease()
        self._services = self._make_services()
        self._run_id = ""
        self._built: BuiltPackage | None = None
        self._last: RunExecution | None = None
        self._attempts = 0
        self._outcome = Outcome(OutcomeKind.CANCELLED, "the run was cancelled")
        self._writes: list[DocumentWrite] = []
        self._states: list[PersistentState] = []
        self._errors: list[Any] = []  # errors outside of turns, of all attempts
        self._notes: list[str] = []
        self._started = time.perf_counter()

    def _make_services(self) -> RunServices:
        environment = self._plan.environment
        return RunServices(
            repository=self._repository,
            get_package=self._get_package,
            context_sources=environment.sources,
            ledger=self._ledger,
            events=TurnEvents(self),
            lease=self._lease,
            shutdown=NeverStops(),
            redactor=environment.redactor,
            prices=environment.prices,
            load_context=self._load_context,
            refresh_context=False,
            random=random.random,
            max_attempts=environment.settings.max_attempts,
            verbose_debug=environment.settings.verbose_debug,
        )

    async def open(self) -> None:
        try:
            self._run_id = (await self._store.insert(self._plan.run_request)).run_id
        except NotStorableError as error:
            raise WrongUseError(str(error)) from None
        for text in self._plan.notes:
            self._note(text)

    async def work(self) -> None:
        """Works on the run until it ends.

        A cancellation ends the run as cancelled, with the last steps of the package, and is raised again.
        """
        work = asyncio.create_task(self._work())
        try:
            await asyncio.wait({work})
        except asyncio.CancelledError:
            await self._cancel(work)
            raise
        work.result()

    async def _work(self) -> None:
        while (claim := await self._repository.claim(self._run_id)) is not None:
            self._attempts += 1
            if claim.document["turn"]:
                self._notify_speaker(claim.document["next_agent"])
            run = self._last = await execute(claim, self._services)
            if run.chat is not None:
                self._errors += [run.services.redactor.redact_data(fault.as_document()) for fault in run.chat.incidents]
            ending = run.released
            if ending is None or not isinstance(ending.decision, Requeue):
                self._outcome = self._outcome if ending is None else ending.outcome
                self._note_end()
                return
            await self._pause(ending.outcome, ending.decision.delay)

    async def _pause(self, outcome: Outcome, delay: timedelta) -> None:
        """Waits before the next attempt.

        A scripted run does not wait: the answers of a script do not depend on the time.
        """
        scripted = self._plan.environment.scripted
        self._note(pause_note(self._attempts, outcome, None if scripted else delay))
        if not scripted:
            await asyncio.sleep(delay.total_seconds())
        due = self._document["not_before"]
        self._skipped += max(timedelta(0) if due is None else due - self._store.clock(), timedelta(0))

    def _note_end(self) -> None:
        """Notes what a worker would do at the end and a local run does not."""
        for text in (
            *state_note(self._states),
            *question_notes(self._document.get("questions") or ()),
            *write_note(self._writes),
        ):
            self._note(text)

    async def _cancel(self, work: "asyncio.Task[None]") -> None:
        for _ in range(MAX_CANCELS):  # repeated, since a library under a chat may swallow a cancellation
            if self._lease.is_finishing:
                await asyncio.wait({work}, timeout=CLOSE_TIMEOUT_S)
                break
            if not self._lease.cancel(by=CALLER):
                work.cancel()  # between two attempts
            await asyncio.wait({work}, timeout=1)
            if work.done():
                break
        work.cancel()
        if self._document["state"] == RunState.QUEUED:  # between two attempts; a run that has ended keeps its state
            await self._store.request_cancel(self._run_id, by=CALLER)

    async def _get_package(self, workflow: str, *, version: str | None) -> BuiltPackage:
        del workflow, version
        if self._built is None:
            self._built = await build_local_package(self._plan)
        return self._built

    async def _load_context(
        self, package: Package, facts: RunFacts, payload: Any, sources: ContextSources
    ) -> RunContext:
        """Loads the context with presets and without a database."""
        del package
        context = await load_context(self._plan.as_loaded, facts, payload, sources)
        self._notify_speaker(None)  # the first turn is next
        return context

    def _notify_speaker(self, agent: str | None) -> None:
        self._watch.speaking(agent or self._plan.package.orchestrator.initial_agent)

    def _collect_writes(self, writes: Sequence[DocumentWrite], states: Sequence[PersistentState]) -> None:
        self._writes += writes
        self._states += states

    def show_newest_turn(self) -> None:
        run = self._document
        number, ended = run["turn"], run["progress"]["ended"]
        self._watch.turn(number, self._turn_report(self._store.turn(self._run_id, number)))
        if ended is None and run["next_agent"] is not None:
            self._watch.speaking(run["next_agent"])

    @property
    def _document(self) -> Document:
        return self._store.document(self._run_id)

    def _turn_report(self, document: Document) -> TurnReport:
        return turn_report({**document, "errors": self._plan.environment.redactor.redact_data(document["errors"])})

    def _note(self, text: str) -> None:
        shown = self._plan.environment.redactor.redact_text(text)
        self._notes.append(shown)
        self._watch.note(shown)

    def report(self) -> RunReport:
        plan, run = self._plan, self._document
        turns = tuple(self._turn_report(self._store.turn(self._run_id, number)) for number in range(1, run["turn"] + 1))
        state = RunState(run["state"])
        return RunReport(
            run_id=self._run_id,
            workflow=plan.package.name,
            state=RunState.CANCELLED if state in (RunState.QUEUED, RunState.RUNNING) else state,  # the run was cut off
            outcome=self._outcome,
            turns=turns,
            context=self._last_context(),
            usage=tuple(call_report(call, plan.environment.prices) for call in self._ledger.calls),
            errors=(*(error for turn in turns for error in turn.errors), *self._errors),
            writes=tuple(map(write_report, self._writes)),
            notes=tuple(self._notes),
            attempts=self._attempts,
            duration_s=round(time.perf_counter() - self._started, 6),
        )

    def _last_context(self) -> dict[str, Any]:
        chat = None if self._last is None else self._last.chat
        try:
            return {} if chat is None else as_storable(chat.storable_context())
        except NotStorableError as error:
            self._notes.append(f"the last context cannot be shown: {error}")
            return {}


class TurnEvents(NoObserver):
    """Shows each turn when it is durable."""

    def __init__(self, run: LocalRun) -> None:
        self._run = run

    def record_turn(self, workflow: str, turn: Turn) -> None:
        del workflow, turn
        self._run.show_newest_turn()


async def build_local_package(plan: Plan) -> BuiltPackage:
    """Imports the Python code of the package, which may do anything and take for ever."""
    environment = plan.environment
    error = missing_environment_error(plan.package, environment.settings.environ)
    if error is not None:
        raise PackageDefect(error)
    build = (build_package, plan.package, environment.models, environment.threads, environment.databases)
    try:
        built: BuiltPackage = await invoke(*build, keywords={}, threads=environment.threads, timeout_s=BUILD_TIMEOUT_S)
    except PackageCodeError as raised:
        if not isinstance(raised.error, TimedOutError):
            raise raised.error from None
        raise PackageDefect(f"its Python files take longer than {BUILD_TIMEOUT_S:g} s to load") from None
    return built
