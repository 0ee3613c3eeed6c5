"""The main path of a run, as a list of steps:

claim → load package → load context → resume transcript → take turns → outcome → release

A turn (`workflows.chat.chat_loop`) asks, records usage, derives, routes; its checkpoint is written here.
Whatever happens in between, the last step gives the run up in a state that says what happened.
"""

import asyncio
import logging
import random
from collections.abc import Mapping
from typing import Any

from pymongo.errors import PyMongoError

from accounting.infra.aio import run_shielded
from accounting.infra.store_errors import is_unavailable
from workers.crash_points import crash_point
from workers.logs import log_context
from workers.process.worker import WorkerProcess
from workers.steps.failures import failed, outcome_of
from workers.steps.release import Ending, hand_back_when_store_is_back, log_written, release
from workers.steps.resuming import load_package, load_run_context, resume_transcript
from workers.steps.retry_policy import Finish, Requeue, decide
from workers.steps.run_chat import key_facts_of, new_chat, questions_in
from workers.steps.turn_record import (
    NOTHING_OWED,
    OwedAtSuccess,
    as_storable_turn,
    owed_at_success,
    record_of_writes,
    stored,
    unfinished_turn,
)
from workers.store.run import Claim, LeaseLostError, RunState, labels
from workers.store.storable import NotStorableError, as_storable
from workflows.chat.chat_loop import close_conversation, run_conversation
from workflows.chat.chat_state import Conversation
from workflows.chat.history.checkpoint import Checkpoint
from workflows.chat.history.transcript import Turn
from workflows.chat.limits import guards
from workflows.chat.limits.run_clock import TIMEOUT_REASON
from workflows.context.documents.document_access import WriteRefusedError, WriteTooSlowError
from workflows.context.documents.document_writes import turn_writes
from workflows.context.state.state_derivation import take_snapshot
from workflows.context.values.log_previews import ContextPreview
from workflows.outcome import Outcome, OutcomeKind

log = logging.getLogger(__name__)

# An object of a package's own may raise whatever it likes when it is read; no signal arrives in the loop's thread.
FAULTS = (Exception, KeyboardInterrupt, SystemExit)


async def execute(wakeup: str, worker: WorkerProcess) -> None:
    """A wake-up says that there is work. Whose turn it is, the lanes know: maybe another run than the one it names."""
    ticket: str | None = wakeup
    while ticket is not None:
        claim = await worker.lanes.next(ticket)
        if claim is None:
            worker.metrics.record_idle_wakeup()
            log.debug("nothing_to_claim", extra={"run_id": ticket})
            return
        if claim.is_alone:
            await worker.alone.serve(claim)
            # A suspect has more tickets than places: who frees one looks for the next.
            ticket = None if worker.stopping() else claim.run_id
            continue
        await own(claim, worker)
        # Who stops leaves it to the reconciler: a run that is let go needs somebody who takes it.
        ticket = None if worker.stopping() else await worker.admission.release_after(claim)


async def own(claim: Claim, worker: WorkerProcess) -> None:
    crash_point("claimed")
    heard()  # what cut an earlier run of this task off is none of this one's
    with log_context(**labels(claim.document), attempt=claim.attempt), worker.tracing.run_span(claim):
        log.info("run_claimed", extra={"token": claim.token})
        worker.metrics.record_start(claim.document)
        interruption = await work_under_lease(claim, worker)
        if interruption is not None:
            await run_shielded(hand_back_when_store_is_back(claim, worker, reason=interruption))


async def work_under_lease(claim: Claim, worker: WorkerProcess) -> str | None:
    """From the claim to the release; or why it was cut short, and the run is to be handed back."""
    try:
        with worker.heartbeat.keeping(claim), worker.interruptible():
            try:
                await worker.tracing.link_related_runs(claim, worker.store)
                await let_go(claim, worker, await work_on(claim, worker))
            except asyncio.CancelledError:
                if worker.heartbeat.lost(claim):
                    return "the lease was not renewed"  # maybe nobody else has it yet: then it is given back
                if worker.stopping():
                    return "this worker is stopping"
                raise
    except LeaseLostError:
        worker.metrics.record_fenced_write()
        log.warning("run_left_to_its_new_owner", extra=labels(claim.document))
    except PyMongoError as error:
        return f"store unavailable: {type(error).__name__}"
    return None


async def let_go(claim: Claim, worker: WorkerProcess, ending: Ending) -> None:
    """A run whose result was not written in time comes back for it while attempts remain; its turns are kept."""
    try:
        await release(claim, worker, ending)
    except WriteTooSlowError as error:
        outcome = failed(error, transient=True)
        await release(claim, worker, Ending(decision_on(outcome, claim, worker), outcome, record=ending.record))


async def work_on(claim: Claim, worker: WorkerProcess) -> Ending:
    """Everything between claim and release; every failure becomes an outcome."""
    chat: Conversation | None = None
    try:
        built = await load_package(claim, worker)
        chat = new_chat(claim, built, worker)
        outcome = await work_on_chat(chat, claim, worker)
    except LeaseLostError:
        raise
    except asyncio.CancelledError:
        if worker.heartbeat.cancelled_by(claim) is None or worker.heartbeat.lost(claim):
            raise
        heard()
        outcome = Outcome(OutcomeKind.CANCELLED, "cancelled")
    except FAULTS as error:
        if isinstance(error, PyMongoError) and is_unavailable(error):
            raise
        outcome = outcome_of(error, labels(claim.document))
    outcome = cancelled_or(outcome, claim, worker)
    try:
        return await ending_of(chat, outcome, claim, worker)
    except FAULTS as error:  # a package may have destroyed what its last steps need; its run ends
        return Ending(Finish(RunState.FAILED), outcome_of(error, labels(claim.document)))


def cancelled_or(outcome: Outcome, claim: Claim, worker: WorkerProcess) -> Outcome:
    """From here on the run has an end. A chat that stopped for somebody's wish was cancelled, whatever else it says."""
    by = worker.heartbeat.cancelled_by(claim)
    worker.heartbeat.at_its_end(claim)
    return outcome if by is None else Outcome(OutcomeKind.CANCELLED, f"cancelled by {by}")


def heard() -> None:
    """All cancellations so far have done their work, also those that a library has swallowed: who waits from here on
    is not taken for cancelled."""
    task = asyncio.current_task()
    while task is not None and task.cancelling():
        task.uncancel()


async def work_on_chat(chat: Conversation, claim: Claim, worker: WorkerProcess) -> Outcome:
    try:
        async with chat.clock.timeout() as limit:
            await load_run_context(chat, claim, worker)
            await resume_transcript(chat, claim, worker)
    except TimeoutError:
        if not limit.expired():
            raise
        agent, turn = chat.next_agent or chat.package.orchestrator.initial_agent, claim.document["turn"] + 1
        reason = f"{TIMEOUT_REASON} before {agent} could take turn {turn}"
        return guards.limit_outcome(OutcomeKind.TIMEOUT, reason, agent=agent, turn=turn)
    return await take_turns(chat, claim, worker)


async def ending_of(chat: Conversation | None, outcome: Outcome, claim: Claim, worker: WorkerProcess) -> Ending:
    """Decides whether this is the end. Then the package's last steps run, and what it owes to databases is known."""
    pattern = chat.package.orchestrator.pattern if chat is not None else "DefaultPattern"
    decision = decision_on(outcome, claim, worker, pattern=pattern)
    if chat is None or isinstance(decision, Requeue):
        return Ending(decision, outcome)
    before = take_snapshot(chat.context) if chat.committed_snapshot is None else chat.committed_snapshot
    owed, refused = owed_by(chat, decision, before, claim)  # refused writes must fail it before on_complete runs
    outcome = await close_conversation(chat, refused or outcome)
    if refused is None:
        owed, refused = owed_by(chat, decision, before, claim)  # its last steps may have changed what is owed
    if refused is not None:
        return Ending(Finish(RunState.FAILED), refused, record=record_of(chat, claim))
    return Ending(decision, outcome, owed, {**record_of(chat, claim), **questions_in(chat, outcome, claim)})


def decision_on(
    outcome: Outcome, claim: Claim, worker: WorkerProcess, *, pattern: str = "DefaultPattern"
) -> Finish | Requeue:
    return decide(
        outcome,
        pattern=pattern,
        attempt=claim.attempt,
        max_attempts=worker.settings.max_attempts,
        random=random.random,
    )


def owed_by(
    chat: Conversation, decision: Finish, before: Mapping[str, str], claim: Claim
) -> tuple[OwedAtSuccess, Outcome | None]:
    """What a run that succeeded owes to databases. A run whose result cannot be written has not succeeded."""
    if decision.state is not RunState.SUCCEEDED:
        return NOTHING_OWED, None
    try:
        return owed_at_success(chat, before, key_facts_of(chat.package, claim)), None
    except WriteRefusedError as error:
        return NOTHING_OWED, failed(error)


def record_of(chat: Conversation, claim: Claim) -> Mapping[str, Any]:
    """What the last steps left: the context, what failed outside of the turns that were kept, how many calls failed in
    all, and what is known of a turn that was not finished. A run that rests in the middle of a turn goes on from the
    context before that turn, so that stays."""
    try:
        context = {"context": as_storable(chat.storable_context())} if not (chat.is_resting and chat.turns) else {}
    except NotStorableError as error:
        log.warning("last_context_not_stored", extra={"run_id": chat.fixed_values["run_id"], "reason": str(error)})
        context = {}
    errors = [chat.redactor.redact_data(incident.as_document()) for incident in chat.incidents]
    left = {"failed_tools": chat.failed_tool_count, "unfinished": unfinished_turn(chat, claim)}
    return {**context, **left, "errors": as_storable({"errors": errors})["errors"]}


async def take_turns(chat: Conversation, claim: Claim, worker: WorkerProcess) -> Outcome:
    facts = key_facts_of(chat.package, claim)
    shown = ContextPreview(chat.context if worker.settings.verbose_debug else {})

    async def commit(number: int, turn: Turn, checkpoint: Checkpoint) -> None:
        document, state = stored(turn, checkpoint)
        if chat.current_turn is not None and chat.current_turn.journal.is_durable:
            document |= as_storable_turn(chat.current_turn.as_open_turn())  # until the run counts this turn
        writes = turn_writes(chat.package, turn.context_changes, checkpoint.context, facts, is_first_turn=number == 1)
        document |= record_of_writes(writes)
        crash_point("turn taken")
        await worker.ownership.commit_turn(claim, number=number, turn=document, checkpoint=state, writes=writes)
        crash_point("turn committed")
        log_written(claim, writes)
        log.info(
            "turn_committed", extra={**labels(claim.document), "turn": number, "agent": turn.agent, "to": turn.handoff}
        )
        if worker.settings.verbose_debug and turn.context_changes:
            changed = shown.describe_changes(turn.context_changes)
            log.info("context_changed", extra={**labels(claim.document), "turn": number, "changes": changed})
        worker.metrics.record_turn(claim.document["workflow"], turn)

    def stopping() -> bool:
        return worker.stopping() or worker.heartbeat.cancelled_by(claim) is not None

    return await run_conversation(chat, save_turn=commit, should_stop=stopping)
