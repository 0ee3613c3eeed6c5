"""One run in this process: the main path of a worker, with lists where a worker has its store.

build → load context → take turns, once for each attempt → close
"""

import asyncio
import json
import random
import time
from collections.abc import Awaitable
from datetime import timedelta

from ops.one_run.attempt import built_package, load_run_context, new_chat
from ops.one_run.context_log import ContextLog
from ops.one_run.kept import Kept
from ops.one_run.plan import Plan
from ops.one_run.report import RunReport, call_report, turn_report, write_report
from ops.one_run.request import Watch
from workers.steps.failures import outcome_of
from workers.steps.retry_policy import Finish, decide
from workers.steps.turn_record import PendingWrites, writes_on_success
from workers.store.run import RunState
from workers.store.storable import NotStorableError, as_storable
from workflows.chat.agents import BuiltPackage
from workflows.chat.answers import questions_of
from workflows.chat.checkpoint import Checkpoint
from workflows.chat.clock import OUT_OF_TIME
from workflows.chat.conversation import close, converse
from workflows.chat.live import Conversation
from workflows.chat.question import Question
from workflows.chat.transcript import Turn
from workflows.context.derived import snapshot
from workflows.context.documents import WriteRefusedError
from workflows.outcome import Outcome, OutcomeKind

PATIENCE_WITH_CANCELLED_S = 10
CLOSING_S = 60.0


def _never() -> bool:
    return False


def _asked_words(question: Question) -> str:
    """On one line: what is asked, and the call that asks it."""
    asked = " ".join((question.title or question.text).split())
    if question.function is None:
        return asked
    arguments = question.arguments
    shown = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False, default=str)
    return f"{asked} [{question.function}({shown})]"


class OneRun:
    """There is a report in every state: also when the run was cut off."""

    def __init__(self, plan: Plan, watch: Watch) -> None:
        self._plan, self._watch = plan, watch
        self._kept = Kept()
        self._context_log = ContextLog(plan)
        self._built: BuiltPackage | None = None
        self._chat: Conversation | None = None
        self._attempts = 0
        self._closing = False
        self._outcome, self._state = Outcome(OutcomeKind.CANCELLED, "the run was cancelled"), RunState.CANCELLED
        self._notes: list[str] = []
        self._started = time.perf_counter()
        for text in plan.notes:
            self._note(text)

    async def work(self) -> None:
        """A cancellation ends the run as cancelled, with the package's last steps, and is raised again."""
        work = asyncio.create_task(self._work())
        try:
            await asyncio.wait({work})
        except asyncio.CancelledError:
            await self._cancel(work)
            raise
        work.result()

    async def _work(self) -> None:
        settings, pattern = self._plan.around.settings, self._plan.package.orchestrator.pattern
        while True:
            self._attempts += 1
            outcome = await _settled(self._attempt())
            decision = decide(
                outcome,
                pattern=pattern,
                attempt=self._attempts,
                max_attempts=settings.max_attempts,
                random=random.random,
            )
            if isinstance(decision, Finish):
                await self._finish(outcome, decision.state)
                return
            await self._pause(outcome, decision.delay)

    async def _attempt(self) -> Outcome:
        plan = self._plan
        if self._built is None:
            self._built = await built_package(plan)
        before = None if self._chat is None else self._chat.counters
        chat = self._chat = new_chat(plan, self._built, self._kept, before)
        try:
            async with chat.clock.limit() as limit:
                if not chat.turns:
                    await load_run_context(plan, chat, self._context_log)
        except TimeoutError:
            if not limit.expired():
                raise
            return Outcome(OutcomeKind.TIMEOUT, OUT_OF_TIME)
        self._context_log.begin(chat.context)
        self._watch.speaking(chat.next_agent or plan.package.orchestrator.initial_agent)
        return await converse(chat, commit=self._commit, stopping=_never)

    async def _commit(self, number: int, turn: Turn, checkpoint: Checkpoint) -> None:
        document = self._kept.commit(self._plan, turn, checkpoint)
        self._context_log.log_changes(number, turn.context_changes)
        self._watch.turn(number, turn_report(document))
        if checkpoint.ended is None and checkpoint.next_agent is not None:
            self._watch.speaking(checkpoint.next_agent)

    async def _pause(self, outcome: Outcome, delay: timedelta) -> None:
        """Nobody waits for a script: what it answers next does not depend on the time."""
        if self._chat is not None:
            self._kept.note_errors_of(self._plan, self._chat)
        ended = f"attempt {self._attempts} ended with {outcome.kind.value}: {outcome.reason}"
        if self._plan.around.scripted:
            self._note(f"{ended}; a worker waits before the next one, a script does not")
            return
        self._note(f"{ended}; the next one begins in {delay.total_seconds():.1f} s")
        await asyncio.sleep(delay.total_seconds())

    async def _finish(self, outcome: Outcome, state: RunState) -> None:
        """The package's last steps. Then what a worker would write to databases is known."""
        self._closing, self._outcome, self._state = True, outcome, state
        if self._chat is not None:
            self._outcome = await _settled(self._close(self._chat, outcome))
            if self._outcome.kind is not outcome.kind:
                self._state = RunState.FAILED
            self._kept.note_errors_of(self._plan, self._chat)
            self._note_questions(self._chat)
        if self._kept.writes:
            names = ", ".join(sorted({write.variable for write in self._kept.writes}))
            self._note(f"no database is written here; a worker would write {names}")

    def _note_questions(self, chat: Conversation) -> None:
        for number, question in enumerate(questions_of(chat, self._outcome), 1):
            if question.kind == "message":
                self._note(
                    "no person is here; on a worker the run goes on when `unattended runs answer` says something"
                )
                continue
            choices = " or ".join(json.dumps(each, ensure_ascii=False) for each in question.choices)
            keys = ", ".join(
                f'"{key}": {choices if choices and not nth else "…"}' for nth, key in enumerate(question.keys)
            )
            self._note(f"question {number}: {_asked_words(question)}")
            self._note(f'ui_responses would answer it: {{"{question.tool}": {{{keys or "…"}}}}}')

    async def _close(self, chat: Conversation, outcome: Outcome) -> Outcome:
        """A run whose result could not be written has not succeeded, and the package is told so."""
        before = snapshot(chat.context) if chat.unseen is None else chat.unseen
        succeeded = self._state is RunState.SUCCEEDED
        if succeeded:
            try:
                writes_on_success(chat, before, self._plan.key_facts)
            except WriteRefusedError as error:
                return await close(chat, outcome_of(error, {}))
        closed = await close(chat, outcome)
        if succeeded:
            owed = writes_on_success(chat, before, self._plan.key_facts)
            self._kept.writes.extend(owed.writes)
            self._note_states(owed)
        return closed

    def _note_states(self, owed: PendingWrites) -> None:
        if owed.states:
            names = ", ".join(sorted(each.place.variable for each in owed.states))
            self._note(f"no state is kept here; a worker would keep {names} for later runs")

    async def _cancel(self, work: "asyncio.Task[None]") -> None:
        for _ in range(PATIENCE_WITH_CANCELLED_S):  # again: a library under a chat may swallow a cancellation
            work.cancel()
            await asyncio.wait({work}, timeout=1)
            if work.done():
                break
        if not self._closing:
            closing = asyncio.create_task(self._finish(self._outcome, self._state))
            await asyncio.wait({closing}, timeout=CLOSING_S)
            closing.cancel()

    def _note(self, text: str) -> None:
        shown = self._plan.around.redactor.text(text)
        self._notes.append(shown)
        self._watch.note(shown)

    def report(self) -> RunReport:
        plan, kept = self._plan, self._kept
        turns = tuple(map(turn_report, kept.turns))
        try:
            context = {} if self._chat is None else as_storable(self._chat.kept())
        except NotStorableError as error:
            context, self._notes = {}, [*self._notes, f"the last context cannot be shown: {error}"]
        return RunReport(
            run_id=plan.facts.run_id,
            workflow=plan.package.name,
            state=self._state,
            outcome=self._outcome.worded(plan.around.redactor.text),
            turns=turns,
            context=context,
            usage=tuple(call_report(call, plan.around.prices) for call in kept.calls),
            errors=(*(error for turn in turns for error in turn.errors), *kept.errors),
            writes=tuple(map(write_report, kept.writes)),
            notes=tuple(self._notes),
            attempts=self._attempts,
            duration_s=round(time.perf_counter() - self._started, 6),
        )


async def _settled(work: Awaitable[Outcome]) -> Outcome:
    try:
        return await work
    except Exception as error:  # noqa: BLE001 -- the outermost step of a run: whatever failed becomes its outcome
        return outcome_of(error, {})
