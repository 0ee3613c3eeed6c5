"""Release: the last step of a run under this owner. It ends, is retried, or is handed to the next owner."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from bson.errors import BSONError
from pymongo.errors import PyMongoError

from accounting.infra.store_errors import is_unavailable
from workers.crash_points import crash_point
from workers.process.worker import WorkerProcess
from workers.steps.failures import failed
from workers.steps.retry_policy import Finish, Requeue
from workers.steps.turn_record import NOTHING_OWED, OwedAtSuccess, record_of_writes
from workers.store.run import Claim, LeaseLostError, RunState, labels
from workflows.context.documents.document_access import DocumentWrite, WriteRefusedError
from workflows.outcome import Outcome, OutcomeKind

log = logging.getLogger(__name__)

STORE_RETRY_S = 1.0
STORE_TRY_S = 5.0
UNRECORDABLE = Outcome(OutcomeKind.PACKAGE_ERROR, "its outcome could not be recorded; see the log")


@dataclass(frozen=True, slots=True)
class Ending:
    """How work on a run ended. `owed` is written together with its success, `record` is what else the run document
    keeps of the end."""

    decision: Finish | Requeue
    outcome: Outcome
    owed: OwedAtSuccess = NOTHING_OWED
    record: Mapping[str, Any] = field(default_factory=dict)


async def release(claim: Claim, worker: WorkerProcess, ending: Ending) -> None:
    outcome, decision = ending.outcome.with_texts(worker.redactor.redact_text), ending.decision
    if isinstance(decision, Requeue):
        state = await hand_back(claim, worker, decision, reason=outcome.as_document()["reason"])
        worker.tracing.record_outcome(claim, outcome, state)
        if decision.counts_as_attempt and state is RunState.QUEUED:
            worker.metrics.record_retry(claim.document["workflow"], outcome.kind)
        return
    try:
        state = await _finish(claim, worker, decision, outcome.as_document(), ending.record, ending.owed)
    except WriteRefusedError as error:
        # A run whose result is not where it belongs has not succeeded.
        decision = Finish(RunState.FAILED)
        outcome = failed(error).with_texts(worker.redactor.redact_text)
        state = await _finish(claim, worker, decision, outcome.as_document(), ending.record)
    except (BSONError, ValueError, PyMongoError) as error:
        if isinstance(error, PyMongoError) and is_unavailable(error):
            raise
        # A run must not come back for ever because its end cannot be written down.
        log.exception("outcome_unrecordable", extra=labels(claim.document))
        decision, outcome = Finish(RunState.FAILED), UNRECORDABLE
        state = await _finish(claim, worker, decision, outcome.as_document(), {})
    worker.metrics.record_end(claim.document, state)
    worker.tracing.record_outcome(claim, outcome, state)
    if state is not decision.state:
        log.info("run_cancelled", extra={**labels(claim.document), "why": f"it was about to be {decision.state.value}"})
        return
    log.info(
        "run_finished",
        extra={
            **labels(claim.document),
            "state": state.value,
            "outcome": outcome.kind.value,
            "why": outcome.as_document()["reason"],
        },
    )


async def _finish(
    claim: Claim,
    worker: WorkerProcess,
    decision: Finish,
    outcome: Mapping[str, Any],
    record: Mapping[str, Any],
    owed: OwedAtSuccess = NOTHING_OWED,
) -> RunState:
    usage = await worker.totals.submit(claim.run_id)
    end = {**record, **record_of_writes(owed.writes), "outcome": dict(outcome), "usage": usage.as_json()}
    crash_point("finishing")
    state = await worker.ownership.finish(claim, decision.state, end, writes=owed.writes, states=owed.states)
    crash_point("finished")
    log_written(claim, owed.writes)
    if owed.states:
        log.info(
            "states_kept",
            extra={**labels(claim.document), "variables": [each.state_key.variable for each in owed.states]},
        )
    return state


def log_written(claim: Claim, writes: Sequence[DocumentWrite]) -> None:
    if writes:
        log.info(
            "documents_written", extra={**labels(claim.document), "variables": [write.variable for write in writes]}
        )


async def hand_back(claim: Claim, worker: WorkerProcess, decision: Requeue, *, reason: str) -> RunState:
    if decision.hold is not None:
        state = await worker.ownership.put_on_hold(claim, decision.hold, reason=reason[:300])
    else:
        state = await worker.ownership.requeue(
            claim, delay=decision.delay, counts_as_attempt=decision.counts_as_attempt, reason=reason[:300]
        )
    said = {**labels(claim.document), "why": reason[:300]}
    if state is RunState.CANCELLED:  # its worker has not heard of that wish
        worker.metrics.record_end(claim.document, state)
        log.info("run_cancelled", extra=said)
    elif decision.hold is not None:
        worker.metrics.record_hold(decision.hold.kind)
        log.info("run_held", extra={**said, "hold": decision.hold.kind.value, "by": decision.hold.by})
    else:
        log.info("run_requeued", extra={**said, "delay_s": decision.delay.total_seconds()})
    return state


async def hand_back_when_store_is_back(claim: Claim, worker: WorkerProcess, *, reason: str) -> None:
    """No fault of the run: given back as soon as somebody can be told, without counting as an attempt.

    What stays away for longer than the lease needs nobody: the reconciler finds the run by its lease. A worker that
    stops leaves it to that as well before it is killed, also when the store hangs in the middle of the answer.
    """
    log.warning("run_interrupted", extra={**labels(claim.document), "reason": reason})
    loop = asyncio.get_running_loop()
    give_up_at = loop.time() + worker.settings.lease_s
    while (left_s := min(give_up_at - loop.time(), worker.seconds_left())) > 0:
        try:
            async with asyncio.timeout(min(left_s, STORE_TRY_S)):
                await hand_back(claim, worker, Requeue(timedelta(0), counts_as_attempt=False), reason=reason)
        except LeaseLostError:
            worker.metrics.record_fenced_write()
            log.warning("run_left_to_its_new_owner", extra=labels(claim.document))
            return
        except (PyMongoError, TimeoutError):
            await asyncio.sleep(STORE_RETRY_S)
        else:
            return
