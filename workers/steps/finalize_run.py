"""Finalize: the outcome becomes a decision, the package's last steps run, and their writes are collected."""

import logging
from collections.abc import Mapping
from typing import Any

from workers.steps.retry_policy import Finish, Requeue, decide
from workers.steps.run_chat import key_facts_of, question_fields
from workers.steps.run_execution import Ending, RunExecution
from workers.steps.run_failures import FAULTS, outcome_of, package_error
from workers.steps.turn_record import NO_WRITES, PendingWrites, unfinished_turn, writes_on_success
from workers.store.run import Claim, RunState
from workers.store.storable import NotStorableError, as_storable
from workflows.chat.chat_loop import close_conversation
from workflows.chat.chat_state import Conversation
from workflows.context.documents.document_access import WriteRefusedError
from workflows.context.state.state_derivation import take_snapshot
from workflows.outcome import Outcome, OutcomeKind

log = logging.getLogger(__name__)


async def finalize(run: RunExecution) -> None:
    """Sets the ending of the run.

    A request to cancel the run is ignored from here on.
    """
    lease = run.services.lease
    requested_by = lease.cancelled_by(run.claim)
    lease.mark_finishing(run.claim)
    if requested_by is not None:  # overrides the outcome of the chat, which stopped for this request
        run.outcome = Outcome(OutcomeKind.CANCELLED, f"cancelled by {requested_by}")
    try:
        run.ending = await _ending(run, _outcome_of(run))
    except FAULTS as error:  # a package may break the data that its last steps need; its run fails
        run.ending = Ending(Finish(RunState.FAILED), outcome_of(error, run.labels))


def _outcome_of(run: RunExecution) -> Outcome:
    if run.outcome is None:
        raise RuntimeError("the steps before this one have set no outcome")
    return run.outcome


async def _ending(run: RunExecution, outcome: Outcome) -> Ending:
    chat = run.chat
    decision = decide_on(run, outcome)
    if chat is None or isinstance(decision, Requeue):
        return Ending(decision, outcome)
    before = take_snapshot(chat.context) if chat.committed_snapshot is None else chat.committed_snapshot
    # Refused writes must fail the run before its on_complete runs.
    pending, refused = pending_writes(chat, decision, before, run.claim)
    outcome = await close_conversation(chat, refused or outcome)
    if refused is None:
        pending, refused = pending_writes(chat, decision, before, run.claim)  # the last steps may have changed them
    if refused is not None:
        return Ending(Finish(RunState.FAILED), refused, record=_record_of(chat, run.claim))
    record = {**_record_of(chat, run.claim), **question_fields(chat, outcome, run.claim)}
    return Ending(decision, outcome, pending, record)


def decide_on(run: RunExecution, outcome: Outcome) -> Finish | Requeue:
    pattern = "DefaultPattern" if run.chat is None else run.chat.package.orchestrator.pattern
    return decide(
        outcome,
        pattern=pattern,
        attempt=run.claim.attempt,
        max_attempts=run.services.max_attempts,
        random=run.services.random,
    )


def pending_writes(
    chat: Conversation, decision: Finish, before: Mapping[str, str], claim: Claim
) -> tuple[PendingWrites, Outcome | None]:
    """Collects the writes of a run that succeeded, or the outcome of one whose writes are refused."""
    if decision.state is not RunState.SUCCEEDED:
        return NO_WRITES, None
    try:
        return writes_on_success(chat, before, key_facts_of(chat.package, claim)), None
    except WriteRefusedError as error:
        return NO_WRITES, package_error(error)


def _record_of(chat: Conversation, claim: Claim) -> Mapping[str, Any]:
    """Collects the last context, failures outside of counted turns, failed calls and the unfinished turn.

    A run that rests in the middle of a turn keeps the context of the turn before, since it resumes from there.
    """
    try:
        context = {"context": as_storable(chat.storable_context())} if not (chat.is_resting and chat.turns) else {}
    except NotStorableError as error:
        log.warning("last_context_not_stored", extra={"run_id": chat.fixed_values["run_id"], "reason": str(error)})
        context = {}
    errors = [chat.redactor.redact_data(incident.as_document()) for incident in chat.incidents]
    left = {"failed_tools": chat.failed_tool_count, "unfinished": unfinished_turn(chat, claim)}
    return {**context, **left, "errors": as_storable({"errors": errors})["errors"]}
