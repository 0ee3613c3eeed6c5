"""A turn: one agent is asked, its tools run, and what was said is derived from, routed on and made durable.

refresh → before_agent → hooks → ask → structured reply → hooks → automatic tools → after_agent → hide → derive →
route → hand over → commit
"""

import copy
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from workflows.chat import auto_tools, hooks, lifecycle
from workflows.chat.asking import Exchange
from workflows.chat.checkpoint import Checkpoint
from workflows.chat.errors import ChatError, NeedsHuman
from workflows.chat.live import Conversation, LiveTurn
from workflows.chat.messages import messages_for
from workflows.chat.open_turns import begin_turn, rest
from workflows.chat.protecting import protect, settle
from workflows.chat.routing import Router
from workflows.chat.speakers import Decision, decide
from workflows.chat.state_changes import take_handoff
from workflows.chat.structured_replies import fitting_reply
from workflows.chat.transcript import Turn, called_tools, tool_results
from workflows.chat.transfers import transfers_of
from workflows.context.computing import recompute
from workflows.context.derived import changes, derive, snapshot
from workflows.context.observing import PassedMoment, TurnSeen
from workflows.context.rendering import render_exposed
from workflows.context.templates import fill_prompt
from workflows.outcome import Outcome
from workflows.package.models import USER

Events = Sequence[Mapping[str, Any]]
Commit = Callable[[int, Turn, Checkpoint], Awaitable[None]]


async def take_turn(chat: Conversation, router: Router, agent: str, commit: Commit) -> tuple[Outcome | None, str]:
    """One turn of `agent`; returns how the chat ends, if it does, and who is next."""
    before = snapshot(chat.context) if chat.unseen is None else chat.unseen
    started = time.perf_counter()
    live = chat.speaking = begin_turn(chat, agent)
    with live.current(), chat.spans.turn(agent, live.number) as span:
        try:
            text, events = await speak(live)
            duration_s = round(time.perf_counter() - started, 6)
            learn(live, text, events, duration_s=duration_s)
            decision = await decide(live, router, text)
            take_handoff(chat, agent, decision.handoff)
            await keep(live, text, events, before=before, decision=decision, duration_s=duration_s, commit=commit)
            span.committed(decision.handoff)
        except BaseException as error:
            reason = await leave_turn(live, error)
            if isinstance(reason, ChatError):
                outcome = reason.outcome(agent=agent, turn=live.number)
                span.ended_chat(outcome)
                return outcome, agent
            raise
    return decision.ended, decision.next_agent or agent


async def leave_turn(live: LiveTurn, error: BaseException) -> BaseException:
    """Keeps a turn that waits for a person. Returns why the chat ends: `error`, or why this turn cannot be kept."""
    if isinstance(error, NeedsHuman) and live.questions:
        try:
            await rest(live)
        except ChatError as defect:
            error = defect
        else:
            return error
    live.chat.incidents.extend(live.incidents)  # of a turn that is not kept
    return error


async def speak(live: LiveTurn) -> tuple[str, Events]:
    """What the agent says in this turn, and what it did on the way."""
    chat = live.chat
    await refresh_context(live)
    await lifecycle.before_agent(live)
    spec = chat.package.agents[live.agent]
    messages = messages_for(live.agent, chat.opening, chat.turns)
    exposed = chat.package.exposed.get(live.agent, ())
    prompt_text = fill_prompt(spec.system_message, exposed, chat.context)
    system_message, messages = await hooks.prepare(live, prompt_text, messages)
    rendered = render_exposed(exposed, chat.context)
    live.transfers = transfers_of(live)
    prompt = [chat.redactor.text(part) for part in (system_message, rendered)]
    exchange = await Exchange.open(live, prompt, chat.redactor.data(messages))
    text, output = await fitting_reply(exchange, await exchange.say(exchange.question))
    text = await hooks.before_send(live, text)
    called = await auto_tools.call_auto_tools(live, output)
    await lifecycle.after_agent(live)
    if live.stop is not None:  # found after the last model call, by what a tool left running
        raise live.stop
    said: tuple[str, Events] = chat.redactor.data((text, [*await exchange.events(), *called]))
    return said


async def refresh_context(live: LiveTurn) -> None:
    """Reads again what the agent sees and is to be read in each turn. A turn that goes on keeps what it has read."""
    chat, journal = live.chat, live.journal
    variables = chat.built.refreshed.get(live.agent, ())
    if not variables:
        return
    if journal.refreshed is None:
        journal.refreshed = await chat.read_again(variables)
    chat.context.update(copy.deepcopy(dict(journal.refreshed)))
    settle(chat, after=live.agent)


def learn(live: LiveTurn, text: str, events: Events, *, duration_s: float) -> None:
    """Derived and computed variables, from what was said and done, before anybody routes on them."""
    chat = live.chat
    protect(chat, after=live.agent)
    seen = shown_by(chat, live.agent, text, events, duration_s=duration_s)
    seen = replace(seen, ui_answers=tuple(live.ui_answers), written=frozenset(live.written))
    derive(chat.package.variables.values(), chat.context, seen)
    recompute(chat.package, chat.context, chat.suppressed)


async def keep(
    live: LiveTurn,
    text: str,
    events: Events,
    *,
    before: Mapping[str, Any],
    decision: Decision,
    duration_s: float,
    commit: Commit,
) -> None:
    """The turn and its checkpoint, made durable by the caller before the next turn begins."""
    chat = live.chat
    context = chat.kept()
    turn = Turn(
        agent=live.agent,
        text=text,
        events=events,
        context_changes=changes(before, context),
        handoff=decision.handoff,
        tokens=live.tokens,
        duration_s=duration_s,
        errors=tuple(live.incidents),
    )
    counters = replace(
        chat.counters,
        worked_s=chat.clock.total_s(),
        failed_tools=chat.counters.failed_tools + live.failed_tools,
        answered=dict(Counter(chat.counters.answered) + live.answers),
        failed=dict(chat.counters.failed),
    )
    turns = [*chat.turns, turn]
    await commit(live.number, turn, Checkpoint(turns, context, decision.next_agent, counters, decision.ended))
    chat.turns.append(turn)
    chat.counters.answered = counters.answered
    chat.counters.failed_tools = counters.failed_tools
    chat.next_agent, chat.ended = decision.next_agent, decision.ended
    chat.unseen = chat.speaking = None
    chat.handoffs.clear()


def shown_by(chat: Conversation, agent: str, text: str, events: Events, *, duration_s: float) -> TurnSeen:
    """From what is kept of the turns alone, so that another worker would derive the same."""
    return TurnSeen(
        agent=agent,
        text=text,
        tool_results=tool_results(events),
        tool_calls=called_tools(events, {tool.function for tool in chat.package.tools if agent in tool.agents}),
        turns_by_agent=Counter((*(turn.agent for turn in chat.turns), agent)),
        elapsed_s=sum(turn.duration_s for turn in chat.turns) + duration_s,
        moment=None if agent == USER else PassedMoment("after_agent", agent),
    )
