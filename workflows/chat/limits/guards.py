"""Guards: limits that end a chat before it spends more.

Each names the limit, the agent and the turn.
"""

import itertools
from collections.abc import Sequence

from ag2.events import BaseEvent, ModelRequest, ModelResponse, ToolResultsEvent

from accounting.usage import NANO_PER_USD
from workflows.chat.chat_errors import BudgetExhausted, LimitReached
from workflows.chat.chat_state import Conversation, LiveTurn
from workflows.chat.history.transcript import record_events
from workflows.chat.limits import repetitions
from workflows.outcome import Outcome, OutcomeError, OutcomeKind
from workflows.package.normal_form.package_model import USER, Limits

_REPLY_EVENTS = (ModelResponse, ToolResultsEvent)  # AG2 overloads `|` between events


def check_model_call(live: LiveTurn, *, pending_calls: int = 0) -> None:
    """Checks the limits before a model call, by what is spent already.

    The cost of the call itself is not estimated. `pending_calls` are calls of sub-tasks that are allowed and not yet
    made."""
    limits, used = _limits(live), live.chat.counters
    if used.model_calls + pending_calls >= limits.model_calls:
        raise LimitReached(f"the limit of {limits.model_calls} model calls is reached {_describe_turn(live)}")
    if limits.tokens is not None and used.tokens >= limits.tokens:
        raise BudgetExhausted(f"the limit of {limits.tokens} tokens is reached {_describe_turn(live)}")
    if limits.usd is not None and used.cost_nano_usd >= limits.usd * NANO_PER_USD:
        raise BudgetExhausted(f"the limit of {limits.usd:g} USD is reached {_describe_turn(live)}")


def check_tool_round(live: LiveTurn, messages: Sequence[BaseEvent], response: ModelResponse) -> None:
    """Checks a model's tool calls before the first of them runs.

    `messages` are those sent to the model; the events of this turn are at the end."""
    calls = response.tool_calls.calls
    if not calls:
        return
    _check_tool_call_limit(live, len(calls))
    lines = record_events([*_events_since_question(messages), response])
    repetition = repetitions.find_repeated_rounds(live.chat.turns, live.agent, lines)
    if repetition is not None:
        names = ", ".join(sorted({call.name for call in calls})[:3])
        description = repetition.describe("round of tool calls" if repetition.period == 1 else "round")
        raise LimitReached(
            f"{live.agent} repeats itself in turn {live.number}: {description} ({names}), with nothing new"
        )
    live.chat.counters.tool_calls += len(calls)


def count_tool_calls(live: LiveTurn, count: int) -> None:
    """Counts tool calls that no model asked for, before they run."""
    _check_tool_call_limit(live, count)
    live.chat.counters.tool_calls += count


def check_turn(chat: Conversation, agent: str) -> Outcome | None:
    """Checks between two turns whether `agent` may take the next one."""
    number, limit = len(chat.turns) + 1, chat.package.orchestrator.limits.max_turns
    if sum(turn.agent != USER for turn in chat.turns) >= limit:  # a person's message is no agent's turn
        reason = f"the limit of {limit} turns is reached; {agent} would take turn {number}"
        return limit_outcome(OutcomeKind.MAX_TURNS, reason, agent=agent, turn=number)
    repetition = repetitions.find_repeated_turns(chat.turns)
    if repetition is not None:
        reason = f"the chat repeats itself: {repetition.describe('turn')}; {agent} would take turn {number}"
        return limit_outcome(OutcomeKind.LOOP_DETECTED, reason, agent=agent, turn=number)
    return None


def check_speaker(chat: Conversation, agent: str) -> Outcome | None:
    """Checks the final speaker, after rules of scope `pre` were applied."""
    spec = chat.package.agents.get(agent)
    max_turns = None if spec is None else spec.max_consecutive_auto_reply
    if max_turns is None or repetitions.count_turns_in_a_row(chat.turns, agent) < max_turns:
        return None
    number = len(chat.turns) + 1
    reason = (
        f"{agent} may take {max_turns} turns in a row (max_consecutive_auto_reply), and would also take turn {number}"
    )
    return limit_outcome(OutcomeKind.MAX_TURNS, reason, agent=agent, turn=number)


def limit_outcome(kind: OutcomeKind, reason: str, *, agent: str, turn: int) -> Outcome:
    return Outcome(kind, reason, OutcomeError(LimitReached.__name__, reason, agent=agent, turn=turn))


def _check_tool_call_limit(live: LiveTurn, count: int) -> None:
    limit = _limits(live).tool_calls
    if live.chat.counters.tool_calls + count > limit:
        raise LimitReached(
            f"the limit of {limit} tool calls is reached {_describe_turn(live)}, where {count} more are wanted"
        )


def _limits(live: LiveTurn) -> Limits:
    return live.chat.package.orchestrator.limits


def _describe_turn(live: LiveTurn) -> str:
    return f"by {live.asker} in turn {live.number}"


def _events_since_question(messages: Sequence[BaseEvent]) -> Sequence[BaseEvent]:
    """Returns the reply events since the last question, as many as loops need."""
    since_question = itertools.takewhile(lambda event: not isinstance(event, ModelRequest), reversed(messages))
    replies = (event for event in since_question if isinstance(event, _REPLY_EVENTS))
    return list(itertools.islice(replies, 2 * repetitions.MAX_STEPS_COMPARED))[::-1]
