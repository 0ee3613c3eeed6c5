"""The chat of a run: what a run document says, as the conversation that the main path works on."""

from collections.abc import Mapping
from typing import Any

from accounting.usage import ModelCall, RunOwner
from workers.landmarks import passed
from workers.process import WorkerProcess
from workers.run import Claim
from workflows.chat.agents import BuiltPackage
from workflows.chat.checkpoint import read_progress
from workflows.chat.clock import WorkedTime
from workflows.chat.conversation import DEFAULT_OPENING
from workflows.chat.live import Conversation
from workflows.chat.meter import RecordUsage, RunMeter
from workflows.context.context_variables import ContextVariables
from workflows.context.facts import RunFacts
from workflows.context.loading import suppressed_names
from workflows.context.writes import key_facts
from workflows.package.models import Package


def new_chat(claim: Claim, built: BuiltPackage, worker: WorkerProcess) -> Conversation:
    """As it begins, or goes on where the last checkpoint stands; its context and its transcript are loaded next."""
    document, orchestrator = claim.document, built.package.orchestrator
    counters, ended = read_progress(document.get("progress"))
    fixed = run_facts(document).base_values()
    return Conversation(
        built=built,
        context=ContextVariables(fixed),
        suppressed=suppressed_names(built.package, production=worker.context_sources.production),
        meter=RunMeter(usage_recorder(claim, worker), counters, worker.prices),
        opening=worker.redactor.text(document["message"] or orchestrator.initial_message or DEFAULT_OPENING),
        next_agent=document["next_agent"],
        ended=ended,
        fixed=fixed,
        redactor=worker.redactor,
        ui_responses=ui_responses_of(built.package, document["trigger"]["name"]),
        clock=WorkedTime(orchestrator.limits.wall_clock_s, counters.worked_s),
    )


def run_facts(document: Mapping[str, Any]) -> RunFacts:
    return RunFacts(
        run_id=document["_id"],
        app_id=document["app_id"],
        user_id=document["user_id"],
        chat_id=document["chat_id"],
        workflow=document["workflow"],
        trigger={"type": document["trigger"]["type"], "name": document["trigger"]["name"]},
    )


def ui_responses_of(package: Package, trigger: str) -> Mapping[str, Mapping[str, Any]]:
    """What the trigger of this name answers for people."""
    return next((spec.ui_responses for spec in package.triggers if spec.name == trigger), {})


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
        passed("answered")
        await worker.ledger.record(owner, lease_token=claim.token, call=call)
        passed("recorded")
        worker.metrics.model_call(owner.workflow, call)

    return record
