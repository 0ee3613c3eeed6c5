"""Life cycle: a package's functions at moments of a chat and of each turn.

What begins a chat may fail it. What closes it may not: the outcome stands, and the time is bounded. A run that is
taken up again before its first checkpoint begins again, and one whose worker is lost while it closes closes again.
"""

import asyncio
import itertools
from collections.abc import Mapping
from typing import Any

from workflows.chat import package_steps
from workflows.chat.context_parameters import CONTEXT
from workflows.chat.errors import ChatError
from workflows.chat.incidents import incident_of
from workflows.chat.invoking import RaisedError
from workflows.chat.live import Conversation, LiveTurn
from workflows.chat.package_steps import FACTS, Step, failed, refuse_unknown, take_in_turn
from workflows.chat.protecting import settle
from workflows.outcome import Outcome
from workflows.package.models import Moment

CLOSING_TIMEOUT_S = 60.0


async def begin(chat: Conversation) -> None:
    """on_start, then before_chat: before the first turn. StepFailed when one of them fails."""
    for incident in chat.built.incidents:
        chat.note(incident)
    refuse_unknown(itertools.chain.from_iterable(chat.built.lifecycle.values()))
    steps = [*steps_of(chat, "on_start"), *steps_of(chat, "before_chat")]
    for step in steps:
        try:
            await step.call(offered(chat), chat, timeout_s=package_steps.STEP_TIMEOUT_S)
        except RaisedError as raised:
            raise failed(chat, step, raised, note=chat.note) from raised.error
    if steps:
        settle(chat, after="before_chat")


async def before_agent(live: LiveTurn) -> None:
    """StepFailed when one of them fails."""
    if await _around_turn(live, "before_agent"):
        settle(live.chat, after=live.agent)  # its prompt shows variables


async def after_agent(live: LiveTurn) -> None:
    """StepFailed when one of them fails."""
    await _around_turn(live, "after_agent")


async def finish(chat: Conversation, outcome: Outcome, *, succeeded: bool) -> None:
    """after_chat, then on_complete or on_fail: on every way out, bounded in time; what fails is noted, never raised.

    Each step may take an equal part of the time that is left, so that one that hangs leaves the others theirs."""
    steps = [*steps_of(chat, "after_chat"), *steps_of(chat, "on_complete" if succeeded else "on_fail")]
    loop = asyncio.get_running_loop()
    until = loop.time() + CLOSING_TIMEOUT_S
    reason = None if succeeded else chat.redactor.text(outcome.reason)
    given = offered(chat, error=reason, outcome=outcome.kind.value)
    for position, step in enumerate(steps):
        share_s = max(until - loop.time(), 0) / (len(steps) - position)
        await _take_last(chat, step, given, timeout_s=min(share_s, package_steps.STEP_TIMEOUT_S))
    settle(chat, after="after_chat")


async def _take_last(chat: Conversation, step: Step, given: Mapping[str, Any], *, timeout_s: float) -> None:
    try:
        refuse_unknown([step])
        await step.call(given, chat, timeout_s=timeout_s)
    except RaisedError as raised:
        failed(chat, step, raised, note=chat.note)
    except ChatError as error:  # it asks for a person, or for what nobody gives: too late for both
        chat.note(incident_of(error, where=step.label))


async def _around_turn(live: LiveTurn, moment: Moment) -> bool:
    """Whether there was anything to do."""
    steps = [step for step in steps_of(live.chat, moment) if step.agent in (None, live.agent)]
    for step in steps:
        await take_in_turn(live, step, offered(live.chat, agent=live.agent))
    return bool(steps)


def steps_of(chat: Conversation, moment: Moment) -> tuple[Step, ...]:
    return chat.built.lifecycle.get(moment, ())


def offered(
    chat: Conversation, *, agent: str | None = None, error: str | None = None, outcome: str | None = None
) -> dict[str, Any]:
    """The live context, and whose run it is: not as the context says, which any tool may have changed."""
    return {
        CONTEXT: chat.context,
        **{name: chat.fixed.get(name) for name in FACTS},
        "workflow_name": chat.fixed.get("workflow_name", chat.package.name),
        "execution_id": chat.fixed.get("run_id"),
        "agent_name": agent,
        "error": error,
        "outcome": outcome,
    }
