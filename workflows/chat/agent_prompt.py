"""The prompt of one turn: an agent's system message and exposed values, and its view of the chat.

Hooks may change the system message and the messages. Hidden values are removed last.
"""

from collections.abc import Sequence

from workflows.chat.chat_state import LiveTurn
from workflows.chat.history.messages import Message, build_messages
from workflows.chat.hooks import turn_hooks
from workflows.context.expressions.prompt_templates import fill_prompt
from workflows.context.values.value_text import render_exposed


async def build_prompt(live: LiveTurn) -> tuple[Sequence[str], Sequence[Message]]:
    """Returns the parts of the prompt, and the messages."""
    chat = live.chat
    exposed = chat.package.exposures.get(live.agent, ())
    template = fill_prompt(chat.package.agents[live.agent].system_message, exposed, chat.context)
    messages = build_messages(live.agent, chat.opening_message, chat.turns)
    system_message, messages = await turn_hooks.run_reply_hooks(live, template, messages)
    parts = (system_message, render_exposed(exposed, chat.context))
    return [chat.redactor.redact_text(part) for part in parts], chat.redactor.redact_data(messages)
