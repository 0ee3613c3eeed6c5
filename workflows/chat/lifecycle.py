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
from workflows.chat.package_steps import FACTS, FAILURE, Step, failed, refuse_unknown, take_in_turn
from workflows.chat.protecting import settle
from workflows.chat.state_changes import pass_moment
from workflows.outcome import Outcome, OutcomeError
from workflows.package.models import Moment

CLOSING_TIMEOUT_S = 60.0
BEGINNING: tuple[Moment, ...] = ("on_start", "before_chat")


async def begin(chat: Conversation) -> None:
    """on_start, then before_chat: before the first turn. StepFailed when one of them fails."""
    for incident in chat.built.incidents:
        chat.note(incident)
    refuse_unknown(itertools.chain.from_iterable(chat.built.lifecycle.values()))
    for moment in BEGINNING:
        for step in steps_of(chat, moment):
            try:
                await step.call(offered(chat), chat, timeout_s=package_steps.STEP_TIMEOUT_S)
            except RaisedError as raised:
                raise failed(chat, step, raised, note=chat.note) from raised.error
        pass_moment(chat, moment)
    if any(steps_of(chat, moment) for moment in BEGINNING):
        settle(chat, after="before_chat")


async def before_agent(live: LiveTurn) -> None:
    """StepFailed when one of them fails."""
    if await _around_turn(live, "before_agent"):
        settle(live.chat, after=live.agent)  # its prompt shows variables
    pass_moment(live.chat, "before_agent", agent=live.agent)


async def after_agent(live: LiveTurn) -> None:
    """StepFailed when one of them fails. The states that wait for this moment change with the turn's others."""
    await _around_turn(live, "after_agent")


async def finish(chat: Conversation, outcome: Outcome, *, succeeded: bool) -> None:
    """after_chat, then on_complete or on_fail: on every way out, bounded in time; what fails is noted, never raised.

    Each step may take an equal part of the time that is left, so that one that hangs leaves the others theirs."""
    moments: tuple[Moment, ...] = ("after_chat", "on_complete" if succeeded else "on_fail")
    left = sum(len(steps_of(chat, moment)) for moment in moments)
    loop = asyncio.get_running_loop()
    until = loop.time() + CLOSING_TIMEOUT_S
    given = {**offered(chat), "outcome": outcome.kind.value}
    if not succeeded:
        given |= {"error": chat.redactor.text(outcome.reason), **_failure(chat, outcome.error)}
    for moment in moments:
        for step in steps_of(chat, moment):
            share_s = max(until - loop.time(), 0) / left
            await _take_last(chat, step, given, timeout_s=min(share_s, package_steps.STEP_TIMEOUT_S))
            left -= 1
        pass_moment(chat, moment)
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


def _failure(chat: Conversation, error: OutcomeError | None) -> dict[str, Any]:
    """Null where the run failed without an error, as by a rule of the package."""
    if error is None:
        return {}
    show = chat.redactor.text
    values = (show(error.type), show(error.message), error.agent, error.turn)
    return dict(zip(FAILURE, values, strict=True))


def offered(chat: Conversation, *, agent: str | None = None) -> dict[str, Any]:
    """The live context, and whose run it is: not as the context has it, which any tool may have changed. What is known
    only at the end of a chat is null."""
    return {
        CONTEXT: chat.context,
        **{name: chat.fixed.get(name) for name in FACTS},
        "workflow_name": chat.fixed.get("workflow_name", chat.package.name),
        "execution_id": chat.fixed.get("run_id"),
        "agent_name": agent,
        **dict.fromkeys(("error", "outcome", *FAILURE)),
    }
