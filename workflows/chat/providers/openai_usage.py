"""OpenAI's clients of AG2, with what OpenAI says of usage and AG2 1.2 leaves out.

Tokens written to a cache cost more than others from GPT-5.6 on, and a streamed response that was cut short was paid for
like any other.
"""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, TypeVar

from ag2.config import LLMClient, OpenAIConfig, OpenAIResponsesConfig
from ag2.config.openai.mappers import normalize_responses_usage, normalize_usage
from ag2.config.openai.openai_client import OpenAIClient
from ag2.config.openai.openai_responses_client import OpenAIResponsesClient
from ag2.context import ConversationContext
from ag2.events import ModelResponse, Usage
from openai.types import CompletionUsage
from openai.types.chat import ChatCompletion
from openai.types.responses import Response, ResponseCompletedEvent, ResponseFailedEvent, ResponseIncompleteEvent

Client = TypeVar("Client")
_ENDS = (ResponseCompletedEvent, ResponseFailedEvent, ResponseIncompleteEvent)


class ChatConfig(OpenAIConfig):
    def create(self) -> LLMClient:  # type: ignore[override]  # AG2 names its own class where it needs no more than this
        return _become(_ChatClient, super().create())


class ResponsesConfig(OpenAIResponsesConfig):
    def create(self) -> LLMClient:  # type: ignore[override]  # as above
        return _become(_ResponsesClient, super().create())


class _ChatClient(OpenAIClient):
    async def _process_completion(self, completion: ChatCompletion, context: ConversationContext) -> ModelResponse:
        return _with_chat_usage(await super()._process_completion(completion, context), completion.usage)

    async def _process_stream(self, response_stream: Any, context: ConversationContext) -> ModelResponse:
        usage: CompletionUsage | None = None

        async def noted() -> AsyncIterator[Any]:
            nonlocal usage
            async for chunk in response_stream:
                usage = chunk.usage or usage
                yield chunk

        stream: Any = noted()
        return _with_chat_usage(await super()._process_stream(stream, context), usage)


class _ResponsesClient(OpenAIResponsesClient):
    async def _process_response(
        self, response: Response, context: ConversationContext, **request: Any
    ) -> ModelResponse:
        return _with_responses_usage(await super()._process_response(response, context, **request), response)

    async def _process_stream(
        self, response_stream: Any, context: ConversationContext, **request: Any
    ) -> ModelResponse:
        end: Response | None = None

        async def noted() -> AsyncIterator[Any]:
            nonlocal end
            async for event in response_stream:
                if isinstance(event, _ENDS):
                    end = event.response
                yield event

        stream: Any = noted()
        answer = _with_responses_usage(await super()._process_stream(stream, context, **request), end)
        if end is not None and end.status == "incomplete":
            answer.finish_reason = end.status
        return answer


def _become(kind: type[Client], client: object) -> Client:
    """AG2's configurations name the class of their client; only its methods are ours."""
    mine = kind.__new__(kind)
    vars(mine).update(vars(client))
    return mine


def _with_chat_usage(answer: ModelResponse, usage: CompletionUsage | None) -> ModelResponse:
    if usage is not None:
        answer.usage = _with_written(normalize_usage(usage), usage.prompt_tokens_details)
    return answer


def _with_responses_usage(answer: ModelResponse, response: Response | None) -> ModelResponse:
    if response is not None and response.usage is not None:
        answer.usage = _with_written(normalize_responses_usage(response.usage), response.usage.input_tokens_details)
    return answer


def _with_written(usage: Usage, details: object) -> Usage:
    """Servers that speak the same protocol send less than the library's types promise."""
    return replace(usage, cache_creation_input_tokens=getattr(details, "cache_write_tokens", None))
