"""The conversation: begin, turns one after another until an outcome, close.

After each turn a checkpoint goes to the caller, who makes it durable before the next turn begins. Whatever ends a
chat is an outcome that says of whom and in which turn.
"""

from collections.abc import Callable
from dataclasses import replace

from workflows.chat import guards, lifecycle
from workflows.chat.answers import take_answer
from workflows.chat.clock import OUT_OF_TIME
from workflows.chat.errors import ChatError
from workflows.chat.live import Conversation
from workflows.chat.routing import Router
from workflows.chat.turn import Commit, take_turn
from workflows.chat.turn_order import resume, resumed_turn, skip_to_speaker
from workflows.context.derived import snapshot
from workflows.outcome import Outcome, OutcomeKind, succeeds

DEFAULT_OPENING = "Begin."
MAX_EXPLANATION = 1_000


async def converse(chat: Conversation, *, commit: Commit, stopping: Callable[[], bool]) -> Outcome:
    """Takes turns until the chat ends, or until this worker is stopping, between two turns."""
    limit = chat.clock.limit()
    try:
        async with limit:
            return await _take_turns(chat, commit, stopping)
    except TimeoutError:
        if not limit.expired():
            raise
        return _out_of_time(chat)


async def _take_turns(chat: Conversation, commit: Commit, stopping: Callable[[], bool]) -> Outcome:
    router = Router(chat.package, chat.suppressed)
    failed = await _begin(chat)
    if failed is None:
        await take_answer(chat, router, commit)
    end, agent = (failed, "") if failed is not None else resume(chat, router)
    while end is None:
        if chat.clock.is_over():  # asked beside the cancellation, which a library under a turn may swallow
            return _out_of_time(chat)
        if stopping():
            return Outcome(OutcomeKind.HANDED_BACK, "this worker is stopping")
        speaker = _speaker(chat, router, agent)
        if isinstance(speaker, Outcome):
            return speaker
        end, agent = await take_turn(chat, router, speaker, commit)
    return end


def _speaker(chat: Conversation, router: Router, agent: str) -> str | Outcome:
    """Who takes the next turn; or why the chat ends before it."""
    try:
        resumed = resumed_turn(chat)
    except ChatError as error:
        return error.outcome(agent=agent, turn=len(chat.turns) + 1)
    if resumed is not None:
        return resumed
    end = guards.before_turn(chat, agent)
    if end is not None:
        return end
    speaker = skip_to_speaker(router, agent, chat)
    if isinstance(speaker, Outcome):
        chat.resting = speaker.kind is OutcomeKind.NEEDS_HUMAN
        return speaker
    return guards.before_speaking(chat, speaker) or speaker


async def _begin(chat: Conversation) -> Outcome | None:
    """Only before the first turn: a run that is resumed has begun."""
    if chat.turns or chat.ended is not None:
        return None
    chat.unseen = snapshot(chat.context)  # what these steps change belongs to the first turn
    try:
        await lifecycle.begin(chat)
    except ChatError as error:
        return error.outcome(turn=0)
    return None


async def close(chat: Conversation, outcome: Outcome) -> Outcome:
    """The last steps of a chat that is over, however it ended; the outcome as the package explains it."""
    if outcome.kind is OutcomeKind.NEEDS_HUMAN:
        return outcome  # it waits for a person, and goes on
    succeeded = succeeds(outcome, pattern=chat.package.orchestrator.pattern)
    await lifecycle.finish(chat, outcome, succeeded=succeeded)
    return outcome if succeeded else _explained(chat, outcome)


def _explained(chat: Conversation, outcome: Outcome) -> Outcome:
    """A package may name the variable that says why it failed."""
    key = chat.package.orchestrator.failure_message_key
    words = chat.context.get(key) if key else None
    return (
        replace(outcome, reason=f"{words.strip()[:MAX_EXPLANATION]} ({outcome.reason})")
        if isinstance(words, str) and words.strip()
        else outcome
    )


def _out_of_time(chat: Conversation) -> Outcome:
    now = chat.speaking
    agent = now.agent if now is not None else chat.next_agent or chat.package.orchestrator.initial_agent
    turn = now.number if now is not None else len(chat.turns) + 1
    reason = f"{OUT_OF_TIME} by {agent} in turn {turn}"
    return guards.reached(OutcomeKind.TIMEOUT, reason, agent=agent, turn=turn)
