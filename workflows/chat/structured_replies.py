"""Structured replies: what an agent with a registered output model says, checked, with one attempt at repair."""

from typing import Any

from workflows.chat.asking import Exchange


async def fitting_reply(exchange: Exchange, text: str) -> tuple[str, Any]:
    """The text that fits the agent's model and what it says as plain JSON; None for an agent without a model."""
    del exchange
    return text, None
