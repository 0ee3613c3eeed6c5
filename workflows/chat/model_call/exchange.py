"""An exchange: one turn with AG2, including its model calls, tools and sub-tasks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workflows.chat.chat_errors import ModelError
from workflows.chat.chat_state import LiveTurn
from workflows.chat.history.messages import Message, to_history
from workflows.chat.history.transcript import record_events
from workflows.chat.model_call.fast_stream import FastStream
from workflows.context.values.storable_values import storable_text


@dataclass(frozen=True, slots=True)
class Exchange:
    """A fresh stream with the agent's view of the chat.

    The agent may be asked several times in one turn."""

    live: LiveTurn
    prompt: tuple[str, ...]
    stream: FastStream
    opening_question: str
    history_size: int  # events of earlier turns

    @staticmethod
    async def open(live: LiveTurn, prompt: Sequence[str], messages: Sequence[Message]) -> "Exchange":
        history, question = to_history(messages)
        stream = FastStream()
        await stream.history.replace(history)
        # An agent without a prompt gets a blank one: AG2 reads an empty tuple as "use your own".
        return Exchange(live, tuple(part for part in prompt if part) or (" ",), stream, question, len(history))

    async def ask(self, text: str) -> str:
        """Returns the agent's answer; empty only when the agent handed over instead."""
        live = self.live
        reply = await live.chat.built_package.agents[live.agent].ask(text, stream=self.stream, prompt=self.prompt)
        if live.stop_error is not None:
            raise live.stop_error
        body = reply.body or live.transfer_text
        if not body.strip() and live.transfer is None:
            raise ModelError(f"the model of {live.agent} sent an empty answer in turn {live.number}", transient=True)
        return storable_text(body)

    async def events(self) -> Sequence[Mapping[str, Any]]:
        """Returns the records that this turn added to the transcript."""
        return record_events(list(await self.stream.history.get_events())[self.history_size :])
