"""Life cycle: a package's functions at moments of a chat and of each turn."""

from workflows.chat.live import Conversation, LiveTurn
from workflows.outcome import Outcome


async def begin(chat: Conversation) -> None:
    """on_start, then before_chat: before the first turn. StepFailed when one of them fails."""
    del chat


async def before_agent(live: LiveTurn) -> None:
    """StepFailed when one of them fails."""
    del live


async def after_agent(live: LiveTurn) -> None:
    """StepFailed when one of them fails."""
    del live


async def finish(chat: Conversation, outcome: Outcome, *, succeeded: bool) -> None:
    """after_chat, then on_complete or on_fail: on every way out, bounded in time; what fails is noted, never raised."""
    del chat, outcome, succeeded
