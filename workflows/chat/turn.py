"""A turn: asks one agent, runs its tools, derives, routes and commits.

refresh → before_agent → hooks → ask → structured reply → hooks → automatic tools → after_agent → hide → derive → route
→ hand over → commit
"""

import copy
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from workflows.chat.agent_prompt import build_prompt
from workflows.chat.chat_errors import ChatError, NeedsHuman
from workflows.chat.chat_state import Conversation, LiveTurn
from workflows.chat.context_sanitizer import sanitize_and_recompute, sanitize_context
from workflows.chat.history.checkpoint import Checkpoint
from workflows.chat.history.transcript import Turn, called_tools, tool_results
from workflows.chat.hooks import lifecycle_steps, turn_hooks
from workflows.chat.model_call.exchange import Exchange
from workflows.chat.model_call.structured_replies import validate_reply
from workflows.chat.questions.open_turns import begin_turn, save_resting_turn
from workflows.chat.routing.next_speaker import SpeakerDecision, decide_speaker
from workflows.chat.routing.router import Router
from workflows.chat.routing.state_changes import apply_handoff
from workflows.chat.routing.transfers import offer_transfers
from workflows.chat.tools import auto_tools
from workflows.context.reads.computed_values import recompute_variables
from workflows.context.state.state_derivation import changes_since, derive_states, take_snapshot
from workflows.context.state.state_transitions import LifecycleEvent, TurnObservation
from workflows.outcome import Outcome
from workflows.package.normal_form.package_model import USER

Events = Sequence[Mapping[str, Any]]
SaveTurn = Callable[[int, Turn, Checkpoint], Awaitable[None]]


async def take_turn(chat: Conversation, router: Router, agent: str, save_turn: SaveTurn) -> tuple[Outcome | None, str]:
    """Takes one turn of `agent`.

    Returns the outcome if the chat ends, and the next agent."""
    before = take_snapshot(chat.context) if chat.committed_snapshot is None else chat.committed_snapshot
    started = time.perf_counter()
    live = chat.current_turn = begin_turn(chat, agent)
    with live.as_current(), chat.spans.turn(agent, live.number) as span:
        try:
            text, events = await run_agent(live)
            duration_s = round(time.perf_counter() - started, 6)
            derive_state(live, text, events, duration_s=duration_s)
            decision = await decide_speaker(live, router, text)
            apply_handoff(chat, agent, decision.handoff)
            await commit(
                live,
                text,
                events,
                snapshot_before=before,
                decision=decision,
                duration_s=duration_s,
                save_turn=save_turn,
            )
            span.record_commit(decision.handoff)
        except BaseException as error:
            reason = await leave_turn(live, error)
            if isinstance(reason, ChatError):
                outcome = reason.outcome(agent=agent, turn=live.number)
                span.record_chat_end(outcome)
                return outcome, agent
            raise
    return decision.end_outcome, decision.next_agent or agent


async def leave_turn(live: LiveTurn, error: BaseException) -> BaseException:
    """Saves a turn that waits for a person.

    Returns why the chat ends: `error`, or why this turn cannot be saved."""
    if isinstance(error, NeedsHuman) and live.questions:
        try:
            await save_resting_turn(live)
        except ChatError as defect:
            error = defect
        else:
            return error
    live.chat.incidents.extend(live.incidents)  # of a turn that is not saved
    return error


async def run_agent(live: LiveTurn) -> tuple[str, Events]:
    """Asks the agent. Returns its text and the events of the turn."""
    chat = live.chat
    await refresh_context(live)
    await lifecycle_steps.run_before_agent(live)
    prompt, messages = await build_prompt(live)
    live.transfers = offer_transfers(live)
    exchange = await Exchange.open(live, prompt, messages)
    text, output = await validate_reply(exchange, await exchange.ask(exchange.opening_question))
    text = await turn_hooks.run_send_hooks(live, text)
    called = await auto_tools.call_auto_tools(live, output)
    await lifecycle_steps.run_after_agent(live)
    if live.stop_error is not None:  # found after the last model call, by code that a tool left running
        raise live.stop_error
    redacted: tuple[str, Events] = chat.redactor.redact_data((text, [*await exchange.events(), *called]))
    return redacted


async def refresh_context(live: LiveTurn) -> None:
    """Reads per-turn variables again. A resumed turn keeps what it has read."""
    chat, journal = live.chat, live.journal
    variables = chat.built_package.refreshed_variables.get(live.agent, ())
    if not variables:
        return
    if journal.refreshed_values is None:
        journal.refreshed_values = await chat.refresh_variables(variables)
    chat.context.update(copy.deepcopy(dict(journal.refreshed_values)))
    sanitize_and_recompute(chat, source=live.agent)


def derive_state(live: LiveTurn, text: str, events: Events, *, duration_s: float) -> None:
    """Derives states and recomputes variables from the turn, before routing uses them."""
    chat = live.chat
    sanitize_context(chat, source=live.agent)
    observation = observe_turn(chat, live.agent, text, events, duration_s=duration_s)
    observation = replace(observation, ui_answers=tuple(live.ui_answers), written_names=frozenset(live.written_names))
    derive_states(chat.package.variables.values(), chat.context, observation)
    recompute_variables(chat.package, chat.context, chat.suppressed_names)


async def commit(
    live: LiveTurn,
    text: str,
    events: Events,
    *,
    snapshot_before: Mapping[str, Any],
    decision: SpeakerDecision,
    duration_s: float,
    save_turn: SaveTurn,
) -> None:
    """Saves the turn and its checkpoint durably, then updates the live chat."""
    chat = live.chat
    context = chat.storable_context()
    turn = Turn(
        agent=live.agent,
        text=text,
        events=events,
        context_changes=changes_since(snapshot_before, context),
        handoff=decision.handoff,
        tokens=live.tokens,
        duration_s=duration_s,
        errors=tuple(live.incidents),
    )
    counters = replace(
        chat.counters,
        worked_s=chat.clock.total_s(),
        failed_tools=chat.counters.failed_tools + live.failed_tools,
        answered=dict(Counter(chat.counters.answered) + live.answer_counts),
        failed=dict(chat.counters.failed),
    )
    turns = [*chat.turns, turn]
    await save_turn(live.number, turn, Checkpoint(turns, context, decision.next_agent, counters, decision.end_outcome))
    chat.turns.append(turn)
    chat.counters.answered = counters.answered
    chat.counters.failed_tools = counters.failed_tools
    chat.next_agent, chat.final_outcome = decision.next_agent, decision.end_outcome
    chat.committed_snapshot = chat.current_turn = None
    chat.pending_handoffs.clear()


def observe_turn(chat: Conversation, agent: str, text: str, events: Events, *, duration_s: float) -> TurnObservation:
    """Describes the turn from stored data only, so any worker derives the same."""
    return TurnObservation(
        agent=agent,
        text=text,
        tool_results=tool_results(events),
        tool_calls=called_tools(events, {tool.function for tool in chat.package.tools if agent in tool.agents}),
        turns_by_agent=Counter((*(turn.agent for turn in chat.turns), agent)),
        elapsed_s=sum(turn.duration_s for turn in chat.turns) + duration_s,
        moment=None if agent == USER else LifecycleEvent("after_agent", agent),
    )
