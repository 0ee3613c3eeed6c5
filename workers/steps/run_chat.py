"""The chat of a run: the conversation that the engine builds from a run document."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from accounting.usage import BegunCall, ModelCall, RunOwner
from workers.crash_points import crash_point
from workers.steps.run_services import RunServices
from workers.steps.turn_record import as_storable_turn
from workers.store.run import Claim
from workers.store.storable import NotStorableError
from workflows.chat.agents.built_packages import BuiltPackage
from workflows.chat.chat_errors import PackageDefect
from workflows.chat.chat_loop import DEFAULT_OPENING
from workflows.chat.chat_state import Conversation
from workflows.chat.history.checkpoint import RunCounters, read_progress
from workflows.chat.history.turn_journal import OpenTurn
from workflows.chat.limits.run_clock import RunClock
from workflows.chat.model_call.metered_client import RunMeter
from workflows.chat.questions.user_turn import open_questions
from workflows.context.context_loader import suppressed_names
from workflows.context.context_variables import ContextVariables
from workflows.context.documents.document_writes import key_facts
from workflows.context.run_facts import RunFacts
from workflows.outcome import Outcome
from workflows.package.normal_form.package_model import Package

UIResponses = Mapping[str, Any]


def new_chat(claim: Claim, built: BuiltPackage, services: RunServices) -> Conversation:
    """Opens the chat at its beginning, or at the last checkpoint.

    Context and transcript are loaded by the next steps.
    """
    document, orchestrator = claim.document, built.package.orchestrator
    counters, ended = read_progress(document.get("progress"))
    fixed = run_facts(document).base_values()
    return Conversation(
        built_package=built,
        context=ContextVariables(fixed),
        suppressed_names=suppressed_names(built.package, production=services.context_sources.production),
        meter=run_meter(claim, services, counters),
        opening_message=services.redactor.redact_text(
            document["message"] or orchestrator.initial_message or DEFAULT_OPENING
        ),
        next_agent=document["next_agent"],
        final_outcome=ended,
        fixed_values=fixed,
        idempotency_run_id=document.get("keys_of"),
        redactor=services.redactor,
        ui_responses=ui_responses_of(built.package, document),
        standing_answer_source=f"trigger {document['trigger']['name']}",
        tool_answers=answers_by_question(document),
        record_answer=partial(services.repository.record_answer, claim),
        save_open_turn=partial(keep_open_turn, claim, services),
        user_message=None if (message := unread_message(document)) is None else services.redactor.redact_text(message),
        clock=RunClock(orchestrator.limits.wall_clock_s, counters.worked_s),
        on_tool_call=partial(services.events.record_tool_call, document["workflow"]),
        spans=services.tracing.chat_spans(claim),
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


def ui_responses_of(package: Package, document: Mapping[str, Any]) -> UIResponses:
    """Returns the standing answers of the trigger of this run.

    The answers of a trigger that was created at run time came with the run. A run that was started over HTTP or by a
    command has the trigger `http` or `cli`, which is no type of a declared trigger: it never gets the answers of a
    declared trigger of that name.
    """
    made_at_run_time: UIResponses | None = document.get("ui_responses")
    if made_at_run_time is not None:
        return made_at_run_time
    fired = (document["trigger"]["type"], document["trigger"]["name"])
    return next((spec.ui_responses for spec in package.triggers if (spec.type, spec.name) == fired), {})


def answers_of(document: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return document.get("answers") or ()  # a run of an older version has none


def answers_by_question(document: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """Returns the answers to questions of tools, by question.

    Answers of an older version, or to its questions, are ignored: the run asks again.
    """
    asked = ((answer.get("question") or {}, answer) for answer in answers_of(document))
    return {question["id"]: answer for question, answer in asked if question.get("kind") == "tool" and "id" in question}


async def keep_open_turn(claim: Claim, services: RunServices, turn: OpenTurn) -> None:
    """Stores the steps of an open turn. Raises PackageDefect if they are too large."""
    try:
        document = as_storable_turn(turn)
    except NotStorableError as error:
        raise PackageDefect(str(error)) from None
    await services.repository.keep_open_turn(claim, number=turn.number, turn=document)


def unread_message(document: Mapping[str, Any]) -> str | None:
    """Returns the newest message of a person since the last turn."""
    newest_first = reversed(answers_of(document))
    messages = (answer.get("message") for answer in newest_first if answer["turn"] == document["turn"])
    return next((message for message in messages if message is not None), None)


def question_fields(chat: Conversation, outcome: Outcome, claim: Claim) -> Mapping[str, Any]:
    """Returns the fields that a run waiting for a person stores; empty for other runs."""
    questions = open_questions(chat, outcome)
    if not questions:
        return {}
    first = sum(not answer.get("standing") for answer in answers_of(claim.document)) + 1
    documents = [{"number": number, **question.as_document()} for number, question in enumerate(questions, start=first)]
    return {"questions": documents, "question": documents[0]}


def key_facts_of(package: Package, claim: Claim) -> Mapping[str, Any]:
    """Returns the facts that document keys are built from.

    They come from the run and not from its context: no tool and no model can change which document is written.
    """
    return key_facts(package, claim.document["input"], run_facts(claim.document).base_values())


def run_meter(claim: Claim, services: RunServices, counters: RunCounters) -> RunMeter:
    owner = owner_of(claim)
    budgets = services.open_budgets(
        app_id=owner.app_id,
        workflow=owner.workflow,
        amount_used=lambda unit: counters.tokens if unit == "tokens" else counters.cost_nano_usd,
        has_begun=lambda: counters.model_calls > 0,
    )

    async def begin(call: BegunCall) -> None:
        await services.ledger.begin(owner, lease_token=claim.token, call=call)
        crash_point("asking")

    async def record(call: ModelCall) -> None:
        crash_point("answered")
        holder = budgets.holder_of(call)
        await services.ledger.record(owner, lease_token=claim.token, call=call, holder=holder)
        crash_point("recorded")
        services.events.record_model_call(owner.workflow, call)

    return RunMeter(record, counters, services.prices, begin=begin, reserve=budgets.reserve)


def owner_of(claim: Claim) -> RunOwner:
    document = claim.document
    return RunOwner(
        run_id=claim.run_id,
        app_id=document["app_id"],
        user_id=document["user_id"],
        chat_id=document["chat_id"],
        workflow=document["workflow"],
        trigger_type=document["trigger"]["type"],
    )
