"""Release: the last step of a run under this owner. It ends, is retried, or is handed to the next owner."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bson.errors import BSONError
from pymongo.errors import PyMongoError

from accounting.infra.store_errors import is_unavailable
from workers.crash_points import crash_point
from workers.steps.finalize_run import decide_on
from workers.steps.hand_back import hand_back
from workers.steps.retry_policy import Finish, Requeue
from workers.steps.run_execution import Ending, RunExecution
from workers.steps.run_failures import package_error
from workers.steps.turn_record import NO_WRITES, PendingWrites, log_written, record_of_writes
from workers.store.run import RunState
from workflows.context.documents.document_access import WriteRefusedError, WriteTooSlowError
from workflows.outcome import Outcome, OutcomeKind

log = logging.getLogger(__name__)

UNRECORDABLE = Outcome(OutcomeKind.PACKAGE_ERROR, "its outcome could not be recorded; see the log")


async def release(run: RunExecution) -> None:
    """Writes the ending of the run.

    Retries the run if its documents were not written in time. Its turns are kept.
    """
    ending = run.ending
    if ending is None:
        raise RuntimeError("the step before this one has set no ending")
    try:
        await _release(run, ending)
    except WriteTooSlowError as error:
        outcome = package_error(error, transient=True)
        await _release(run, Ending(decide_on(run, outcome), outcome, record=ending.record))


async def _release(run: RunExecution, ending: Ending) -> None:
    outcome, services = ending.outcome.with_texts(run.services.redactor.redact_text), run.services
    if isinstance(ending.decision, Requeue):
        state = await hand_back(run, ending.decision, reason=outcome.as_document()["reason"])
        services.tracing.record_outcome(run.claim, outcome, state)
        if ending.decision.counts_as_attempt and state is RunState.QUEUED:
            services.events.record_retry(run.document["workflow"], outcome.kind)
        run.released = replace(ending, outcome=outcome)
        return
    state, decision, outcome = await _finish_somehow(run, ending, ending.decision, outcome)
    services.events.record_end(run.document, state)
    services.tracing.record_outcome(run.claim, outcome, state)
    run.released = replace(ending, decision=decision, outcome=outcome)
    if state is not decision.state:
        log.info("run_cancelled", extra={**run.labels, "why": f"it was about to be {decision.state.value}"})
        return
    why = outcome.as_document()["reason"]
    log.info("run_finished", extra={**run.labels, "state": state.value, "outcome": outcome.kind.value, "why": why})


async def _finish_somehow(
    run: RunExecution, ending: Ending, decision: Finish, outcome: Outcome
) -> tuple[RunState, Finish, Outcome]:
    """Writes the ending. Fails the run if its documents are refused or its end cannot be stored."""
    try:
        state = await _finish(run, decision, outcome, ending.record, ending.pending)
    except WriteRefusedError as error:
        decision, outcome = Finish(RunState.FAILED), package_error(error).with_texts(run.services.redactor.redact_text)
        state = await _finish(run, decision, outcome, ending.record)
    except (BSONError, ValueError, PyMongoError) as error:
        if isinstance(error, PyMongoError) and is_unavailable(error):
            raise
        log.exception("outcome_unrecordable", extra=run.labels)
        decision, outcome = Finish(RunState.FAILED), UNRECORDABLE
        state = await _finish(run, decision, outcome, {})
    return state, decision, outcome


async def _finish(
    run: RunExecution,
    decision: Finish,
    outcome: Outcome,
    record: Mapping[str, Any],
    pending: PendingWrites = NO_WRITES,
) -> RunState:
    repository, claim = run.services.repository, run.claim
    usage = await repository.usage_totals(claim.run_id)
    end = {**record, **record_of_writes(pending.writes), "outcome": outcome.as_document(), "usage": usage.as_json()}
    crash_point("finishing")
    state = await repository.finish(claim, decision.state, end, writes=pending.writes, states=pending.states)
    crash_point("finished")
    log_written(claim, pending.writes)
    if pending.states:
        variables = [kept_state.state_key.variable for kept_state in pending.states]
        log.info("states_kept", extra={**run.labels, "variables": variables})
    return state
