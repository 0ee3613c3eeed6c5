"""The main path of a run, as a list of steps:

claim → load package → load context → resume transcript → take turns → outcome → release

A turn (`workflows.chat.conversation`) asks, records usage, derives, routes; its checkpoint is written here.
Whatever happens in between, the last step gives the run up in a state that says what happened.
"""

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pymongo.errors import PyMongoError

from accounting.store_errors import store_is_away
from accounting.uninterrupted import to_its_end
from accounting.usage import ModelCall, RunOwner
from workers.process import WorkerProcess
from workers.release import Ending, crashed, failed, hand_back_when_store_is_back, labels, log_written, release
from workers.retry_policy import succeeds
from workers.run import Claim, LeaseLostError
from workers.storable import NotStorableError, as_storable
from workflows.chat.agents import BuiltPackage
from workflows.chat.conversation import DEFAULT_OPENING, OUT_OF_TIME, Checkpoint, Conversation, converse
from workflows.chat.errors import ChatError, PackageDefect
from workflows.chat.meter import RecordUsage, RunMeter
from workflows.chat.transcript import Turn
from workflows.context.computing import recompute
from workflows.context.context_variables import ContextVariables
from workflows.context.documents import DocumentWrite, WriteRefusedError
from workflows.context.facts import RunFacts
from workflows.context.loading import RunContext, load_context, purged, suppressed_names
from workflows.context.missing import ContextError, ContextUnavailableError
from workflows.context.previews import ShownContext, previews
from workflows.context.redaction import Redactor, take_out
from workflows.context.writes import key_facts, writes_at_success, writes_of_turn
from workflows.outcome import Outcome, OutcomeKind
from workflows.package.models import Package

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WorkedTime:
    """The wall clock of a run runs while somebody works on it: waiting for a retry or a worker is not its doing."""

    limit_s: float
    earlier_s: float
    _began: float = field(default_factory=time.monotonic)

    def total_s(self) -> float:
        return self.earlier_s + time.monotonic() - self._began

    def is_over(self) -> bool:
        return self.total_s() >= self.limit_s


async def execute(run_id: str, worker: WorkerProcess) -> None:
    claim = await worker.ownership.claim(run_id)
    if claim is None:
        log.debug("nothing_to_claim", extra={"run_id": run_id})
        return
    log.info("run_claimed", extra={**labels(claim), "token": claim.token, "attempt": claim.attempt})
    worker.metrics.started(claim.document)
    interruption = await work_under_lease(claim, worker)
    if interruption is not None:
        await to_its_end(hand_back_when_store_is_back(claim, worker, reason=interruption))


async def work_under_lease(claim: Claim, worker: WorkerProcess) -> str | None:
    """From the claim to the release; or why it was cut short, and the run is to be handed back."""
    try:
        with worker.heartbeat.keeping(claim), worker.interruptible():
            try:
                await release(claim, worker, await work_on(claim, worker))
            except asyncio.CancelledError:
                if worker.heartbeat.lost(claim):
                    return "the lease was not renewed"  # maybe nobody else has it yet: then it is given back
                if worker.stopping():
                    return "this worker is stopping"
                raise
    except LeaseLostError:
        log.warning("run_left_to_its_new_owner", extra=labels(claim))
    except PyMongoError as error:
        return f"store unavailable: {type(error).__name__}"
    return None


async def work_on(claim: Claim, worker: WorkerProcess) -> Ending:
    """Everything between claim and release; every failure becomes an outcome."""
    pattern, limit = "DefaultPattern", asyncio.timeout(None)
    try:
        built = await load_package(claim, worker)
        pattern = built.package.orchestrator.pattern
        worked = WorkedTime(built.package.orchestrator.limits.wall_clock_s, claim.document.get("worked_s", 0.0))
        limit = asyncio.timeout(max(worked.limit_s - worked.total_s(), 0))
        async with limit:
            context = await load_run_context(claim, built.package, worker)
            chat = await resume_transcript(claim, built, context, worker)
            outcome = await take_turns(chat, claim, worker, worked)
            return Ending(pattern, outcome, owed_at_success(chat, claim) if succeeds(outcome, pattern=pattern) else ())
    except TimeoutError as error:
        outcome = Outcome(OutcomeKind.TIMEOUT, OUT_OF_TIME) if limit.expired() else crashed(claim, error)
        return Ending(pattern, outcome)
    except (ContextError, WriteRefusedError) as error:
        return Ending(pattern, failed(OutcomeKind.PACKAGE_ERROR, error))
    except ContextUnavailableError as error:
        return Ending(pattern, failed(OutcomeKind.PACKAGE_ERROR, error, transient=True))
    except ChatError as error:
        return Ending(pattern, error.outcome())
    except LeaseLostError:
        raise
    except Exception as error:
        if isinstance(error, PyMongoError) and store_is_away(error):
            raise
        return Ending(pattern, crashed(claim, error))


async def load_package(claim: Claim, worker: WorkerProcess) -> BuiltPackage:
    """A run keeps the version it was first claimed with, as long as this process can still give it."""
    workflow, pinned = claim.document["workflow"], claim.document["package_version"]
    built = await worker.built(workflow, version=pinned)
    version = built.package.version
    if version != pinned:
        if pinned is not None:
            log.warning("pinned_version_gone", extra={**labels(claim), "pinned": pinned, "used": version})
        await worker.ownership.pin_package(claim, version)
    return built


async def load_run_context(claim: Claim, package: Package, worker: WorkerProcess) -> RunContext:
    """A resumed run keeps the context of its checkpoint: what a finished turn saw must not change under it."""
    facts = run_facts(claim.document)
    if claim.document["turn"] == 0:
        context = await load_context(package, facts, claim.document["input"], worker.context_sources)
        shown = {"values": previews(context.variables)} if worker.settings.verbose_debug else {}
        log.info("context_loaded", extra={**labels(claim), "names": sorted(context.variables), **shown})
    else:
        suppressed = suppressed_names(package, production=worker.context_sources.production)
        context = RunContext(purged(claim.document["context"], suppressed, run_id=claim.run_id), suppressed)
        recompute(package, context.variables, suppressed)  # of what may just have been purged
    take_out(context.variables, context.suppressed, worker.redactor, fixed=facts.base_values())
    return context


def run_facts(document: Mapping[str, Any]) -> RunFacts:
    return RunFacts(
        run_id=document["_id"],
        app_id=document["app_id"],
        user_id=document["user_id"],
        chat_id=document["chat_id"],
        workflow=document["workflow"],
        trigger={"type": document["trigger"]["type"], "name": document["trigger"]["name"]},
    )


async def resume_transcript(
    claim: Claim, built: BuiltPackage, context: RunContext, worker: WorkerProcess
) -> Conversation:
    document, orchestrator = claim.document, built.package.orchestrator
    turns = await worker.store.committed_turns(claim.run_id, up_to=document["turn"])
    earlier = await worker.ledger.earlier_calls(claim.run_id)
    meter = RunMeter(
        record=usage_recorder(claim, worker),
        max_calls=orchestrator.limits.model_calls,
        earlier_calls=earlier.count,
        failed_by_agent=dict(earlier.failed_by_agent),
    )
    return Conversation(
        built=built,
        context=ContextVariables(context.variables),
        suppressed=context.suppressed,
        meter=meter,
        opening=worker.redactor.text(document["message"] or orchestrator.initial_message or DEFAULT_OPENING),
        turns=[Turn.from_document(without_hidden(turn, worker.redactor)) for turn in turns],
        next_agent=document["next_agent"],
        fixed=run_facts(document).base_values(),
        redactor=worker.redactor,
    )


def without_hidden(turn: Mapping[str, Any], redactor: Redactor) -> Mapping[str, Any]:
    """What another worker kept, in another environment, or before a package said what is hidden."""
    return {**turn, **{name: redactor.data(turn[name]) for name in ("text", "events", "context_changes")}}


async def take_turns(chat: Conversation, claim: Claim, worker: WorkerProcess, worked: WorkedTime) -> Outcome:
    facts = key_facts_of(chat.package, claim)
    shown = ShownContext(chat.context if worker.settings.verbose_debug else {})

    async def commit(number: int, turn: Turn, checkpoint: Checkpoint) -> None:
        try:
            document = {**turn.as_document(), "context_changes": as_storable(turn.context_changes)}
            context = as_storable(checkpoint.context)
        except NotStorableError as error:
            raise PackageDefect(str(error)) from None
        state = {"next_agent": checkpoint.next_agent, "context": context, "worked_s": worked.total_s()}
        writes = writes_of_turn(chat.package, turn.context_changes, checkpoint.context, facts, first=number == 1)
        await worker.ownership.commit_turn(claim, number=number, turn=document, checkpoint=state, writes=writes)
        log_written(claim, writes)
        log.info("turn_committed", extra={**labels(claim), "turn": number, "agent": turn.agent, "to": turn.handoff})
        if worker.settings.verbose_debug and turn.context_changes:
            changed = shown.changed_to(turn.context_changes)
            log.info("context_changed", extra={**labels(claim), "turn": number, "changes": changed})
        worker.metrics.turn(claim.document["workflow"], turn)

    return await converse(chat, commit=commit, stopping=worker.stopping, out_of_time=worked.is_over)


def owed_at_success(chat: Conversation, claim: Claim) -> tuple[DocumentWrite, ...]:
    changed = {name for turn in chat.turns for name in turn.context_changes}  # also of turns before a resume
    return writes_at_success(chat.package, changed, chat.kept(), key_facts_of(chat.package, claim))


def key_facts_of(package: Package, claim: Claim) -> Mapping[str, Any]:
    """From the run, not from its context: no tool and no model can change which document is written."""
    return key_facts(package, claim.document["input"], run_facts(claim.document).base_values())


def usage_recorder(claim: Claim, worker: WorkerProcess) -> RecordUsage:
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
