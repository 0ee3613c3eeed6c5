"""Life cycle: a package's functions at moments of a chat and of each turn.

Opening steps may fail the chat. Closing steps may not: the outcome stands, and their time is bounded. A run that is
resumed before its first checkpoint repeats the opening steps; a run whose worker is lost while closing repeats the
closing steps.
"""

import asyncio
import itertools
from collections.abc import Mapping
from typing import Any

from workflows.chat.chat_errors import ChatError
from workflows.chat.chat_state import Conversation, LiveTurn
from workflows.chat.context_sanitizer import sanitize_and_recompute
from workflows.chat.hooks.package_steps import (
    FACT_NAMES,
    FAILURE_NAMES,
    PackageStep,
    check_parameters,
    note_step_failure,
    run_in_turn,
)
from workflows.chat.package_code.bound_arguments import CONTEXT_PARAMETER
from workflows.chat.package_code.incidents import make_incident
from workflows.chat.package_code.invocation import PackageCodeError
from workflows.chat.routing.state_changes import apply_moment
from workflows.outcome import Outcome, OutcomeError
from workflows.package.normal_form.package_model import Moment

FIRST_MOMENTS: tuple[Moment, ...] = ("on_start", "before_chat")


async def run_first_steps(chat: Conversation) -> None:
    """Runs on_start, then before_chat. StepFailed when one of them fails."""
    for incident in chat.built_package.import_incidents:
        chat.note_incident(incident)
    check_parameters(itertools.chain.from_iterable(chat.built_package.lifecycle.values()))
    for moment in FIRST_MOMENTS:
        for step in lifecycle_steps(chat, moment):
            try:
                await step.call(step_arguments(chat), chat, timeout_s=chat.timeouts.step_s)
            except PackageCodeError as raised:
                raise note_step_failure(chat, step, raised, note=chat.note_incident) from raised.error
        apply_moment(chat, moment)
    if any(lifecycle_steps(chat, moment) for moment in FIRST_MOMENTS):
        sanitize_and_recompute(chat, source="before_chat")


async def run_before_agent(live: LiveTurn) -> None:
    """Runs before_agent. StepFailed when a step fails."""
    if await _run_turn_steps(live, "before_agent"):
        sanitize_and_recompute(live.chat, source=live.agent)  # its prompt shows variables
    apply_moment(live.chat, "before_agent", agent=live.agent)


async def run_after_agent(live: LiveTurn) -> None:
    """Runs after_agent. StepFailed when a step fails.

    States that wait for this moment change with the others of the turn."""
    await _run_turn_steps(live, "after_agent")


async def run_last_steps(chat: Conversation, outcome: Outcome, *, succeeded: bool) -> None:
    """Runs after_chat, then on_complete or on_fail, whatever the outcome.

    Failures are noted and never raised. Each step gets an equal share of the remaining time, so one that hangs leaves
    the others theirs."""
    moments: tuple[Moment, ...] = ("after_chat", "on_complete" if succeeded else "on_fail")
    remaining_steps = sum(len(lifecycle_steps(chat, moment)) for moment in moments)
    loop = asyncio.get_running_loop()
    until = loop.time() + chat.timeouts.closing_s
    arguments = {**step_arguments(chat), "outcome": outcome.kind.value}
    if not succeeded:
        arguments |= {"error": chat.redactor.redact_text(outcome.reason), **_failure_arguments(chat, outcome.error)}
    for moment in moments:
        for step in lifecycle_steps(chat, moment):
            share_s = max(until - loop.time(), 0) / remaining_steps
            await _run_last_step(chat, step, arguments, timeout_s=min(share_s, chat.timeouts.step_s))
            remaining_steps -= 1
        apply_moment(chat, moment)
    sanitize_and_recompute(chat, source="after_chat")


async def _run_last_step(
    chat: Conversation, step: PackageStep, arguments: Mapping[str, Any], *, timeout_s: float
) -> None:
    try:
        check_parameters([step])
        await step.call(arguments, chat, timeout_s=timeout_s)
    except PackageCodeError as raised:
        note_step_failure(chat, step, raised, note=chat.note_incident)
    except ChatError as error:  # it asks for a person, or has an unknown parameter: too late for both
        chat.note_incident(make_incident(error, where=step.label))


async def _run_turn_steps(live: LiveTurn, moment: Moment) -> bool:
    """Runs the steps of a moment. Returns whether there were any."""
    steps = [step for step in lifecycle_steps(live.chat, moment) if step.agent in (None, live.agent)]
    for step in steps:
        await run_in_turn(live, step, step_arguments(live.chat, agent=live.agent))
    return bool(steps)


def lifecycle_steps(chat: Conversation, moment: Moment) -> tuple[PackageStep, ...]:
    return chat.built_package.lifecycle.get(moment, ())


def _failure_arguments(chat: Conversation, error: OutcomeError | None) -> dict[str, Any]:
    """Describes the error; empty if the run failed without one, as by a rule."""
    if error is None:
        return {}
    redact = chat.redactor.redact_text
    values = (redact(error.type), redact(error.message), error.agent, error.turn)
    return dict(zip(FAILURE_NAMES, values, strict=True))


def step_arguments(chat: Conversation, *, agent: str | None = None) -> dict[str, Any]:
    """Returns the arguments of a step: the live context and the run's own facts.

    The facts come from the run, since any tool may have changed them in the context. Values that are known only at the
    end of a chat are null."""
    return {
        CONTEXT_PARAMETER: chat.context,
        **{name: chat.fixed_values.get(name) for name in FACT_NAMES},
        "workflow_name": chat.fixed_values.get("workflow_name", chat.package.name),
        "execution_id": chat.fixed_values.get("run_id"),
        "agent_name": agent,
        **dict.fromkeys(("error", "outcome", *FAILURE_NAMES)),
    }
