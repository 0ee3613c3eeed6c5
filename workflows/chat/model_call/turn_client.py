"""The client that agents are built with: checks around the metered client.

A chat that must stop makes no further call. A turn whose model has chosen the next speaker is over. A model's tool
calls are checked before any of them runs.
"""

import copy
import itertools
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ag2.config import LLMClient, ModelConfig, ModelProvider
from ag2.context import ConversationContext
from ag2.events import (
    BaseEvent,
    ModelMessage,
    ModelResponse,
    ToolCallEvent,
    ToolNotFoundEvent,
    ToolResult,
    ToolResultsEvent,
)
from ag2.files.protocol import FilesClient
from ag2.tools.final import FunctionToolSchema
from ag2.tools.schemas import ToolSchema

from workflows.chat.chat_errors import ModelError
from workflows.chat.chat_state import LiveTurn, live_turn
from workflows.chat.history.turn_journal import AnswerStep, NewAnswer
from workflows.chat.limits import guards
from workflows.chat.model_call.metered_client import MeteredClient
from workflows.chat.model_call.open_call import MeteredModel
from workflows.chat.providers.prompt_cache import add_cache_key
from workflows.chat.providers.provider import DeadlineClient, OpenModel, Provider
from workflows.chat.providers.provider_errors import refusal_error, truncated_stream_error
from workflows.chat.routing.transfers import take_transfer
from workflows.context.redaction import Redactor
from workflows.context.values.storable_values import storable_text


class TurnClient(LLMClient):
    def __init__(self, metered: MeteredClient) -> None:
        self._metered = metered

    async def __call__(
        self, messages: Sequence[BaseEvent], context: ConversationContext, **request: Any
    ) -> ModelResponse:
        live = live_turn()
        if live.stop_error is not None:
            raise live.stop_error
        if live.transfer is not None:
            return ModelResponse()
        name_offered_tools(messages, request.get("tools", ()))
        try:
            response = take_transfer(live, await self._next_answer(live, messages, context, request))
            guards.check_tool_round(live, messages, response)
        except ModelError:
            raise  # a retry, or the agent above a sub-task, may do without
        except Exception as error:
            live.stop_error = error  # kept: a sub-task would turn the error into a result, and the chat would continue
            raise
        return response

    async def _next_answer(
        self, live: LiveTurn, messages: Sequence[BaseEvent], context: ConversationContext, request: Mapping[str, Any]
    ) -> ModelResponse:
        """Returns the recorded answer that is due, or a model's new one."""
        recorded = live.journal.next_recorded_answer()
        if recorded is not None:
            return await replay_answer(live, recorded, context)
        known, before = len(list(await context.stream.history.get_events())), Counter(live.tokens)
        response = await self._metered(messages, context, **request)
        response = redact_arguments(repair_arguments(response), live.chat.redactor)
        sent = list(await context.stream.history.get_events())[known:]
        tokens = {name: live.tokens[name] - before[name] for name in live.tokens}
        # A copy: the transfer is removed from the answer before its use.
        live.journal.add(NewAnswer(live.asker, sent, copy.copy(response), tokens))
        live.journal.assign_positions(response)
        live.reply_context = live.chat.context.to_dict()
        await live.save_journal()
        return response


async def replay_answer(live: LiveTurn, recorded: AnswerStep, context: ConversationContext) -> ModelResponse:
    """Replays a recorded answer and applies the recorded calls of it."""
    sent, response = recorded.decode()
    for event in sent:
        await context.send(event)
    for name, count in recorded.tokens.items():
        live.tokens[name] = live.tokens.get(name, 0) + count
    live.answer_counts[recorded.asker] += 1
    live.journal.assign_positions(response)
    live.reply_context = live.chat.context.to_dict()
    for step in live.journal.results_of_newest_answer():
        live.apply_recorded(step)
    return response


def redact_arguments(response: ModelResponse, redactor: Redactor) -> ModelResponse:
    """Redacts calls' arguments, so that tools, records and people get the same ones."""
    for call in response.tool_calls.calls:
        arguments = json.loads(call.arguments or "{}")
        shown = redactor.redact_data(arguments)
        if shown is not arguments:
            call.arguments = json.dumps(shown)
    return response


def name_offered_tools(messages: Sequence[BaseEvent], schemas: Sequence[ToolSchema]) -> None:
    """Lists the offered tools for a model that called an unknown one.

    One sentence replaces AG2's exception."""
    last = messages[-1] if messages else None
    for result in last.results if isinstance(last, ToolResultsEvent) else ():
        if isinstance(result, ToolNotFoundEvent):
            names = ", ".join(tool.function.name for tool in schemas if isinstance(tool, FunctionToolSchema)) or "none"
            result.result = ToolResult(f"There is no tool {result.name}; there are: {names}.")


def repair_arguments(response: ModelResponse) -> ModelResponse:
    """Replaces arguments that are not JSON by an object that the tool refuses.

    Otherwise AG2 answers the call with an error and then fails on the same text when it builds the next request."""
    for call in _make_storable(response).tool_calls.calls:
        try:
            readable = isinstance(json.loads(call.arguments or "{}"), Mapping)
        except (ValueError, RecursionError):  # also numbers of 5,000 digits, and endless nesting
            readable = False
        if not readable:
            call.arguments = json.dumps({"unreadable_arguments": call.arguments[:200]})
    return response


def _make_storable(response: ModelResponse) -> ModelResponse:
    """Removes lone surrogates, which no wire format takes in the next request."""
    if response.message is not None and storable_text(response.message.content) != response.message.content:
        response.message = ModelMessage(storable_text(response.message.content))
    for call in response.tool_calls.calls:
        call.id, call.name, call.arguments = (
            storable_text(call.id),
            storable_text(call.name),
            storable_text(call.arguments or ""),
        )
    _make_ids_unique(response.tool_calls.calls)
    return response


def _make_ids_unique(calls: Sequence[ToolCallEvent]) -> None:
    """Gives calls unique ids: some servers send one for all calls, or none.

    AG2 would take the first result for the result of each of them."""
    taken = {call.id for call in calls}
    for ordinal, call in enumerate(calls, start=1):
        if not call.id or any(call.id == earlier.id for earlier in calls[: ordinal - 1]):
            numbers = (f"{call.id or 'call'}_{number}" for number in itertools.count(ordinal))
            call.id = next(free for free in numbers if free not in taken)
            taken.add(call.id)


class ChatModelConfig(ModelConfig):
    """Makes one client per model and process.

    AG2 asks for a client on every turn, and a fresh one costs 16 ms."""

    def __init__(self, model: OpenModel, provider: Provider, *, name: str) -> None:
        self._open_model = model
        self._config = model.config
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
            metered_model = MeteredModel(
                self._name,
                self._config.model,
                self._provider.normalize,
                timeout_s=self._open_model.answer_timeout_s,
                is_paid=self._provider.is_paid,
            )
            metered = MeteredClient(
                self._create_inner(), metered_model, explain=self._provider.explain, find_fault=self._find_fault
            )
            self._client = TurnClient(metered)
        return self._client

    async def close(self) -> None:
        await self._open_model.close()

    def _create_inner(self) -> LLMClient:
        client, timeout_s = self._config.create(), self._open_model.answer_timeout_s
        if self._open_model.cache_option is not None:
            client = add_cache_key(client, self._open_model.cache_option)
        return client if timeout_s is None else DeadlineClient(client, provider=self._name, timeout_s=timeout_s)

    def _find_fault(self, answer: ModelResponse) -> ModelError | None:
        """Finds an answer that AG2 reports as a success and that is none.

        AG2 accepts a stream that broke off, with the part that arrived."""
        if self._open_model.is_streamed and not self._provider.is_whole(answer):
            return truncated_stream_error(self._name)
        return refusal_error(self._name, answer)

    def create_files_client(self) -> FilesClient[Any]:
        return self._config.create_files_client()
