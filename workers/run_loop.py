"""The main path of a run, as a list of steps:

claim → load package → load context → resume transcript → take turns → outcome → release

A turn (`workflows.chat.conversation`) asks, records usage, derives, routes; its checkpoint is written here.
Whatever happens in between, the last step gives the run up in a state that says what happened.
"""

import asyncio
import logging
import random
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from pymongo.errors import PyMongoError

from accounting.totals import usage_totals
from accounting.usage import ModelCall, RunOwner, UsageTotals
from workers.process import WorkerProcess
from workers.retry_policy import Finish, decide
from workers.run import Claim, LeaseLostError
from workers.storable import NotStorableError, as_storable
from workers.store_errors import store_is_away
from workflows.chat.conversation import DEFAULT_OPENING, Checkpoint, Conversation, converse
from workflows.chat.errors import ChatError, PackageDefect
from workflows.chat.meter import RunMeter
from workflows.chat.transcript import Turn
from workflows.context.context_variables import ContextVariables
from workflows.context.loading import ContextError, RunContext, RunFacts, load_context, purged, suppressed_names
from workflows.context.previews import previews
from workflows.outcome import Outcome, OutcomeError, OutcomeKind
from workflows.package.models import Package

log = logging.getLogger(__name__)

STORE_RETRY_S = 1.0


async def execute(run_id: str, worker: WorkerProcess) -> None:
    claim = await worker.ownership.claim(run_id)
    if claim is None:
        log.debug("nothing_to_claim", extra={"run_id": run_id})
        return
    log.info("run_claimed", extra={**_labels(claim), "token": claim.token, "attempt": claim.attempt})
    worker.metrics.started(claim.document)
    try:
        with worker.heartbeat.keeping(claim):
            try:
                pattern, outcome = await work_on(claim, worker)
                await release(claim, worker, pattern, outcome)
            except asyncio.CancelledError:
                if not worker.heartbeat.lost(claim):
                    raise
                raise LeaseLostError(claim) from None
    except LeaseLostError:
        log.warning("run_left_to_its_new_owner", extra=_labels(claim))
    except PyMongoError as error:
        await hand_back_when_store_is_back(claim, worker, error)


async def hand_back_when_store_is_back(claim: Claim, worker: WorkerProcess, error: PyMongoError) -> None:
    """The store did not answer: no fault of the run, so it is given back as soon as somebody can be told.

    What stays away for longer than the lease needs nobody: the reconciler finds the run by its lease.
    """
    log.warning("store_unavailable", extra={**_labels(claim), "error": type(error).__name__})
    give_up_at = asyncio.get_running_loop().time() + worker.settings.lease_s
    while asyncio.get_running_loop().time() < give_up_at:
        await asyncio.sleep(STORE_RETRY_S)
        try:
            await worker.ownership.requeue(
                claim, delay=timedelta(0), counts_as_attempt=False, reason=f"store unavailable: {type(error).__name__}"
            )
        except LeaseLostError:
            return
        except PyMongoError:
            continue
        return


async def work_on(claim: Claim, worker: WorkerProcess) -> tuple[str, Outcome]:
    """Everything between claim and release; every failure becomes an outcome."""
    pattern, limit = "DefaultPattern", None
    try:
        package = await load_package(claim, worker)
        pattern = package.orchestrator.pattern
        limit = asyncio.timeout(remaining_s(claim, package))
        async with limit:
            context = await load_run_context(claim, package, worker)
            chat = await resume_transcript(claim, package, context, worker)
            return pattern, await take_turns(chat, claim, worker)
    except TimeoutError as error:
        if limit is None or not limit.expired():
            return pattern, crashed(claim, error)
        return pattern, Outcome(OutcomeKind.TIMEOUT, "the run's wall-clock limit is reached")
    except ContextError as error:
        return pattern, _failed(OutcomeKind.PACKAGE_ERROR, error)
    except ChatError as error:
        return pattern, error.outcome()
    except LeaseLostError:
        raise
    except Exception as error:
        if isinstance(error, PyMongoError) and store_is_away(error):
            raise
        return pattern, crashed(claim, error)


def crashed(claim: Claim, error: Exception) -> Outcome:
    """What nobody foresaw: recorded with its traceback in the log, and the run ends with its text."""
    log.error("run_crashed", extra=_labels(claim), exc_info=error)
    return _failed(OutcomeKind.PACKAGE_ERROR, error)


async def load_package(claim: Claim, worker: WorkerProcess) -> Package:
    """A run keeps the version it was first claimed with, as long as this process can still give it."""
    workflow, pinned = claim.document["workflow"], claim.document["package_version"]
    package = await asyncio.to_thread(worker.catalog.get, workflow, version=pinned)
    if package is None:
        raise PackageDefect(f"no usable package named {workflow} in {worker.package_places()}")
    if package.version != pinned:
        if pinned is not None:
            log.warning("pinned_version_gone", extra={**_labels(claim), "pinned": pinned, "used": package.version})
        await worker.ownership.pin_package(claim, package.version)
    return package


def remaining_s(claim: Claim, package: Package) -> float:
    started_at: datetime = claim.document["started_at"]
    spent_s = (datetime.now(UTC) - started_at).total_seconds()
    return max(package.orchestrator.limits.wall_clock_s - spent_s, 0.0)


async def load_run_context(claim: Claim, package: Package, worker: WorkerProcess) -> RunContext:
    """A resumed run keeps the context of its checkpoint: what a finished turn saw must not change under it."""
    document = claim.document
    if document["turn"] == 0:
        return await load_context(package, run_facts(document), document["input"], worker.context_sources)
    suppressed = suppressed_names(package, production=worker.context_sources.production)
    return RunContext(purged(document["context"], suppressed, run_id=claim.run_id), suppressed)


def run_facts(document: Mapping[str, Any]) -> RunFacts:
    return RunFacts(
        run_id=document["_id"],
        app_id=document["app_id"],
        user_id=document["user_id"],
        chat_id=document["chat_id"],
        workflow=document["workflow"],
        trigger={"type": document["trigger"]["type"], "name": document["trigger"]["name"]},
    )


async def resume_transcript(claim: Claim, package: Package, context: RunContext, worker: WorkerProcess) -> Conversation:
    document = claim.document
    turns = await worker.store.committed_turns(claim.run_id, up_to=document["turn"])
    # Building imports the package's tools, which may be slow: not on the loop that all runs share.
    built = await asyncio.to_thread(worker.agents.build, package)
    meter = RunMeter(
        record=usage_recorder(claim, worker),
        max_calls=package.orchestrator.limits.model_calls,
        failed_by_agent=dict(await worker.ledger.failed_calls(claim.run_id)),
    )
    return Conversation(
        built=built,
        context=ContextVariables(context.variables),
        suppressed=context.suppressed,
        meter=meter,
        opening=document["message"] or package.orchestrator.initial_message or DEFAULT_OPENING,
        turns=[Turn.from_document(turn) for turn in turns],
        next_agent=document["next_agent"],
    )


async def take_turns(chat: Conversation, claim: Claim, worker: WorkerProcess) -> Outcome:
    async def commit(number: int, turn: Turn, checkpoint: Checkpoint) -> None:
        try:
            document = {**turn.as_document(), "context_changes": as_storable(turn.context_changes)}
            state = {"next_agent": checkpoint.next_agent, "context": as_storable(checkpoint.context)}
        except NotStorableError as error:
            raise PackageDefect(str(error)) from None
        await worker.ownership.commit_turn(claim, number=number, turn=document, checkpoint=state)
        log.info("turn_committed", extra={**_labels(claim), "turn": number, "agent": turn.agent, "to": turn.handoff})
        if worker.settings.verbose_debug and turn.context_changes:
            log.info(
                "context_changed", extra={**_labels(claim), "turn": number, "changes": previews(turn.context_changes)}
            )
        worker.metrics.turn(claim.document["workflow"], turn)

    return await converse(chat, commit=commit, stopping=worker.stopping)


def usage_recorder(claim: Claim, worker: WorkerProcess) -> Any:
    document = claim.document
    owner = RunOwner(
        run_id=claim.run_id,
        app_id=document["app_id"],
        user_id=document["user_id"],
        chat_id=document["chat_id"],
        workflow=document["workflow"],
        trigger_type=document["trigger"]["type"],
    )

    async def record(call: ModelCall) -> None:
        await worker.ledger.record(owner, lease_token=claim.token, call=call)
        worker.metrics.model_call(owner.workflow, call)

    return record


async def release(claim: Claim, worker: WorkerProcess, pattern: str, outcome: Outcome) -> None:
    decision = decide(
        outcome,
        pattern=pattern,
        attempt=claim.attempt,
        max_attempts=worker.settings.max_attempts,
        random=random.random,
    )
    if isinstance(decision, Finish):
        totals = await usage_totals(worker.store.database, [], run_id=claim.run_id)
        usage = (totals[0] if totals else UsageTotals()).as_json()
        await worker.ownership.finish(claim, decision.state, outcome=outcome.as_document(), usage=usage)
        worker.metrics.finished(claim.document, outcome.kind)
        log.info(
            "run_finished",
            extra={
                **_labels(claim),
                "state": decision.state.value,
                "outcome": outcome.kind.value,
                "why": outcome.reason,
            },
        )
        return
    await worker.ownership.requeue(
        claim, delay=decision.delay, counts_as_attempt=decision.counts_as_attempt, reason=outcome.reason
    )
    log.info("run_requeued", extra={**_labels(claim), "delay_s": decision.delay.total_seconds(), "why": outcome.reason})


def _failed(kind: OutcomeKind, error: Exception) -> Outcome:
    return Outcome(kind, str(error), OutcomeError(type(error).__name__, str(error)))


def _labels(claim: Claim) -> dict[str, Any]:
    return {"run_id": claim.run_id, "app_id": claim.document["app_id"], "workflow": claim.document["workflow"]}
