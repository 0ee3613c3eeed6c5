"""Guards: limits that end a chat before it spends more. Each names what was reached; the driver adds agent and turn."""

from ag2.events import ModelResponse

from workflows.chat.errors import BudgetExhausted, LimitReached
from workflows.chat.live import Conversation, LiveTurn
from workflows.outcome import Outcome, OutcomeError, OutcomeKind

NANO = 1_000_000_000


def before_call(live: LiveTurn) -> None:
    """Asked before each model call: what is spent already ends the chat, not what the call would cost."""
    limits, used = live.chat.package.orchestrator.limits, live.chat.counters
    if used.model_calls >= limits.model_calls:
        raise LimitReached(f"the run's limit of {limits.model_calls} model calls is reached")
    if limits.tokens is not None and used.tokens >= limits.tokens:
        raise BudgetExhausted(f"the run's limit of {limits.tokens} tokens is reached")
    if limits.usd is not None and used.cost_nano_usd >= limits.usd * NANO:
        raise BudgetExhausted(f"the run's limit of {limits.usd} USD is reached")


def before_tools(live: LiveTurn, response: ModelResponse) -> None:
    """Asked when a model has answered, before the first of the tools it wants is called."""
    wanted = len(response.tool_calls.calls)
    limit, used = live.chat.package.orchestrator.limits.tool_calls, live.chat.counters
    if used.tool_calls + wanted > limit:
        raise LimitReached(f"the run's limit of {limit} tool calls is reached; {live.agent} wants {wanted} more")
    used.tool_calls += wanted


def before_turn(chat: Conversation, agent: str) -> Outcome | None:
    """Asked between two turns."""
    taken, limit = len(chat.turns), chat.package.orchestrator.limits.max_turns
    if taken >= limit:
        return reached(OutcomeKind.MAX_TURNS, f"the limit of {limit} turns is reached", agent=agent, turn=taken)
    return None


def reached(kind: OutcomeKind, reason: str, *, agent: str, turn: int) -> Outcome:
    return Outcome(kind, reason, OutcomeError("LimitReached", reason, agent=agent, turn=turn))
