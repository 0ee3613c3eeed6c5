"""Hooks: a package's functions that change what an agent is told and what it says."""

from workflows.chat.live import LiveTurn
from workflows.chat.messages import Message


async def prepare(live: LiveTurn, system_message: str, messages: list[Message]) -> tuple[str, list[Message]]:
    """update_agent_state, process_all_messages_before_reply, process_last_received_message: the prompt and the messages
    of this turn as the hooks leave them. StepFailed when one of them fails."""
    del live
    return system_message, messages


async def before_send(live: LiveTurn, text: str) -> str:
    """process_message_before_send: the reply as the hooks leave it. StepFailed when one of them fails."""
    del live
    return text
