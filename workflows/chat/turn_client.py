"""The client that agents are built with: what a turn asks of every model call, around the metered one.

A chat that must stop makes no further call; a turn whose model has chosen the next speaker is over; what a model
wants from tools is looked at before any of them runs.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ag2.config import LLMClient, ModelConfig, ModelProvider
from ag2.context import ConversationContext
from ag2.events import BaseEvent, ModelMessage, ModelResponse, ToolNotFoundEvent, ToolResult, ToolResultsEvent
from ag2.files.protocol import FilesClient
from ag2.tools.final import FunctionToolSchema
from ag2.tools.schemas import ToolSchema

from workflows.chat import guards
from workflows.chat.errors import ModelError
from workflows.chat.live import live_turn
from workflows.chat.meter import MeteredClient
from workflows.chat.open_call import AskedModel
from workflows.chat.providers.failures import cut_off, refusal_of
from workflows.chat.providers.provider import OpenModel, Provider, PunctualClient
from workflows.chat.transfers import take_transfer
from workflows.context.storable_values import storable


class TurnClient(LLMClient):
    def __init__(self, metered: MeteredClient) -> None:
        self._metered = metered

    async def __call__(
        self, messages: Sequence[BaseEvent], context: ConversationContext, **request: Any
    ) -> ModelResponse:
        live = live_turn()
        if live.stop is not None:
            raise live.stop
        if live.transfer is not None:
            return ModelResponse()
        name_tools(messages, request.get("tools", ()))
        try:
            response = with_readable_arguments(await self._metered(messages, context, **request))
            response = take_transfer(live, response)
            guards.before_tools(live, messages, response)
        except ModelError:
            raise  # another try, or the agent above a sub-task, may do without
        except Exception as error:
            live.stop = error  # kept: a sub-task would make it a result, and the chat would go on
            raise
        return response


def name_tools(messages: Sequence[BaseEvent], offered: Sequence[ToolSchema]) -> None:
    """A model that called what is not there is told what is, in one sentence instead of AG2's exception."""
    last = messages[-1] if messages else None
    for each in last.results if isinstance(last, ToolResultsEvent) else ():
        if isinstance(each, ToolNotFoundEvent):
            names = ", ".join(tool.function.name for tool in offered if isinstance(tool, FunctionToolSchema)) or "none"
            each.result = ToolResult(f"There is no tool {each.name}; there are: {names}.")


def with_readable_arguments(response: ModelResponse) -> ModelResponse:
    """A model may send arguments that are not JSON. AG2 would answer the tool call with an error and then fail
    on the same text when it builds the next request, so it is replaced here by what the tool can refuse."""
    for call in _whole(response).tool_calls.calls:
        try:
            readable = isinstance(json.loads(call.arguments or "{}"), Mapping)
        except (ValueError, RecursionError):  # also numbers of 5 000 digits, and endless nesting
            readable = False
        if not readable:
            call.arguments = json.dumps({"unreadable_arguments": call.arguments[:200]})
    return response


def _whole(response: ModelResponse) -> ModelResponse:
    """A model may send half of a character anywhere, and the next request would hold it, which no wire takes."""
    if response.message is not None and storable(response.message.content) != response.message.content:
        response.message = ModelMessage(storable(response.message.content))
    for call in response.tool_calls.calls:
        call.id, call.name, call.arguments = storable(call.id), storable(call.name), storable(call.arguments or "")
    return response


class ChatModelConfig(ModelConfig):
    """One client per model and process: AG2 asks for a client on every turn, and a fresh one costs 16 ms."""

    def __init__(self, opened: OpenModel, provider: Provider, *, name: str) -> None:
        self._opened = opened
        self._config = opened.config
        self._provider = provider
        self._name = name
        self._client: TurnClient | None = None

    @property
    def provider(self) -> ModelProvider:
        return self._config.provider

    @property
    def model(self) -> str:
        return self._config.model

    def copy(self) -> "ChatModelConfig":
        return self

    def create(self) -> TurnClient:
        if self._client is None:
            asked = AskedModel(
                self._name,
                self._config.model,
                self._provider.normalise,
                within_s=self._opened.answer_within_s,
                is_paid=self._provider.is_paid,
            )
            metered = MeteredClient(self._inner(), asked, explain=self._provider.explain, fault=self._fault)
            self._client = TurnClient(metered)
        return self._client

    async def close(self) -> None:
        await self._opened.close()

    def _inner(self) -> LLMClient:
        client, within_s = self._config.create(), self._opened.answer_within_s
        return client if within_s is None else PunctualClient(client, provider=self._name, within_s=within_s)

    def _fault(self, answer: ModelResponse) -> ModelError | None:
        """What AG2 takes for an answer and is none: it reports success, with what has come so far."""
        if self._opened.streamed and not self._provider.is_whole(answer):
            return cut_off(self._name)
        return refusal_of(self._name, answer)

    def create_files_client(self) -> FilesClient[Any]:
        return self._config.create_files_client()
