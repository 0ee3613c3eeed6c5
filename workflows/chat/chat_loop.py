"""The loop of a chat: first steps, one turn after another until an outcome, close.

The rooms beside this file, in the order of a turn: `agents` (built once per version, from `package_code`), `limits`,
`hooks` (before and after the agent), `model_call` through `providers`, `tools`, `questions` to people, `routing` to the
next speaker, `history` that is committed.

After each turn the caller makes a checkpoint durable before the next turn begins. Each outcome names its agent and its
turn.
"""

from collections.abc import Callable
from dataclasses import replace

from workflows.chat.chat_errors import ChatError
from workflows.chat.chat_state import Conversation
from workflows.chat.hooks import lifecycle_steps
from workflows.chat.limits import guards
from workflows.chat.limits.run_clock import TIMEOUT_REASON
from workflows.chat.questions.user_turn import commit_user_turn
from workflows.chat.routing.router import Router
from workflows.chat.routing.turn_order import first_or_next_agent, resume_open_turn, skip_to_speaker
from workflows.chat.turn import SaveTurn, take_turn
from workflows.context.state.state_derivation import take_snapshot
from workflows.outcome import Outcome, OutcomeKind, is_success

DEFAULT_OPENING = "Begin."
MAX_EXPLANATION = 1_000


async def run_conversation(chat: Conversation, *, save_turn: SaveTurn, should_stop: Callable[[], bool]) -> Outcome:
    """Takes turns until the chat ends or the worker stops between two turns."""
    limit = chat.clock.timeout()
    try:
        async with limit:
            return await _take_turns(chat, save_turn, should_stop)
    except TimeoutError:
        if not limit.expired():
            raise
        return _timeout_outcome(chat)


async def _take_turns(chat: Conversation, save_turn: SaveTurn, should_stop: Callable[[], bool]) -> Outcome:
    router = Router(chat.package, chat.suppressed_names)
    failed = await _run_first_steps(chat)
    if failed is None:
        await commit_user_turn(chat, router, save_turn)
    end, agent = (failed, "") if failed is not None else first_or_next_agent(chat, router)
    while end is None:
        if chat.clock.is_expired():  # checked beside the cancellation, which a library under a turn may swallow
            return _timeout_outcome(chat)
        if should_stop():
            return Outcome(OutcomeKind.HANDED_BACK, "this worker is stopping")
        speaker = _next_speaker(chat, router, agent)
        if isinstance(speaker, Outcome):
            return speaker
        end, agent = await take_turn(chat, router, speaker, save_turn)
    return end


def _next_speaker(chat: Conversation, router: Router, agent: str) -> str | Outcome:
    """Returns the agent that takes the next turn, or why the chat ends before it."""
    try:
        resumed = resume_open_turn(chat)
    except ChatError as error:
        return error.outcome(agent=agent, turn=len(chat.turns) + 1)
    if resumed is not None:
        return resumed
    end = guards.check_turn(chat, agent)
    if end is not None:
        return end
    speaker = skip_to_speaker(router, agent, chat)
    if isinstance(speaker, Outcome):
        chat.is_resting = speaker.kind is OutcomeKind.NEEDS_HUMAN
        return speaker
    return guards.check_speaker(chat, speaker) or speaker


async def _run_first_steps(chat: Conversation) -> Outcome | None:
    """Runs the opening steps before the first turn only; a resumed run has begun."""
    if chat.turns or chat.final_outcome is not None:
        return None
    chat.committed_snapshot = take_snapshot(chat.context)  # changes of these steps belong to the first turn
    try:
        await lifecycle_steps.run_first_steps(chat)
    except ChatError as error:
        return error.outcome(turn=0)
    return None


async def close_conversation(chat: Conversation, outcome: Outcome) -> Outcome:
    """Runs the last steps of an ended chat.

    Returns the outcome, for a failure with the package's explanation."""
    if outcome.kind is OutcomeKind.NEEDS_HUMAN:
        return outcome  # the run waits for a person and continues
    succeeded = is_success(outcome, pattern=chat.package.orchestrator.pattern)
    await lifecycle_steps.run_last_steps(chat, outcome, succeeded=succeeded)
    return outcome if succeeded else _with_failure_message(chat, outcome)


def _with_failure_message(chat: Conversation, outcome: Outcome) -> Outcome:
    """Adds the text of the variable that the package names for its failures."""
    key = chat.package.orchestrator.failure_message_key
    explanation = chat.context.get(key) if key else None
    return (
        replace(outcome, reason=f"{explanation.strip()[:MAX_EXPLANATION]} ({outcome.reason})")
        if isinstance(explanation, str) and explanation.strip()
        else outcome
    )


def _timeout_outcome(chat: Conversation) -> Outcome:
    now = chat.current_turn
    agent = now.agent if now is not None else chat.next_agent or chat.package.orchestrator.initial_agent
    turn = now.number if now is not None else len(chat.turns) + 1
    reason = f"{TIMEOUT_REASON} by {agent} in turn {turn}"
    return guards.limit_outcome(OutcomeKind.TIMEOUT, reason, agent=agent, turn=turn)
