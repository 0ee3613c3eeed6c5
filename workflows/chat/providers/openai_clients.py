"""AG2's OpenAI clients, with the usage read here.

AG2 1.2 drops the tokens written to a cache, which cost more than others from GPT-5.6 on, and the usage of a streamed
response that was cut short, which costs as much as any other. It also fails on usage without OpenAI's details, so the
paid answer of a server that only shares the protocol would be lost.
"""

from collections.abc import AsyncIterator
from typing import Any, TypeVar

from ag2.config import LLMClient, OpenAIConfig, OpenAIResponsesConfig
from ag2.config.openai.openai_client import OpenAIClient
from ag2.config.openai.openai_responses_client import OpenAIResponsesClient
from ag2.context import ConversationContext
from ag2.events import ModelResponse, Usage
from openai.types.chat import ChatCompletion
from openai.types.responses import Response, ResponseCompletedEvent, ResponseFailedEvent, ResponseIncompleteEvent

Client = TypeVar("Client")
_END_EVENTS = (ResponseCompletedEvent, ResponseFailedEvent, ResponseIncompleteEvent)


class ChatConfig(OpenAIConfig):
    def create(self) -> LLMClient:  # type: ignore[override]  # AG2 names its own class where it needs no more than this
        return _change_class(_ChatClient, super().create())


class ResponsesConfig(OpenAIResponsesConfig):
    def create(self) -> LLMClient:  # type: ignore[override]  # as above
        return _change_class(_ResponsesClient, super().create())


class _ChatClient(OpenAIClient):
    async def _process_completion(self, completion: ChatCompletion, context: ConversationContext) -> ModelResponse:
        usage, completion.usage = completion.usage, None
        answer = await super()._process_completion(completion, context)
        answer.usage = _chat_usage(usage)
        return answer

    async def _process_stream(self, response_stream: Any, context: ConversationContext) -> ModelResponse:
        usage = None

        async def without_usage() -> AsyncIterator[Any]:
            nonlocal usage
            async for chunk in response_stream:
                usage, chunk.usage = chunk.usage or usage, None
                yield chunk

        stream: Any = without_usage()
        answer = await super()._process_stream(stream, context)
        answer.usage = _chat_usage(usage)
        return answer


class _ResponsesClient(OpenAIResponsesClient):
    async def _process_response(
        self, response: Response, context: ConversationContext, **request: Any
    ) -> ModelResponse:
        usage, response.usage = response.usage, None
        answer = await super()._process_response(response, context, **request)
        answer.usage = _responses_usage(usage)
        return answer

    async def _process_stream(
        self, response_stream: Any, context: ConversationContext, **request: Any
    ) -> ModelResponse:
        usage, status = None, None

        async def without_usage() -> AsyncIterator[Any]:
            nonlocal usage, status
            async for event in response_stream:
                if isinstance(event, _END_EVENTS):
                    usage, status = event.response.usage, event.response.status
                    event.response.usage = None
                yield event

        stream: Any = without_usage()
        answer = await super()._process_stream(stream, context, **request)
        answer.usage = _responses_usage(usage)
        if status == "incomplete":
            answer.finish_reason = status
        return answer


def _change_class(kind: type[Client], client: object) -> Client:
    """Changes the class of a client: AG2's configurations allow no other one."""
    changed = kind.__new__(kind)
    vars(changed).update(vars(client))
    return changed


def _chat_usage(reported: object) -> Usage:
    return _read_usage(reported, "prompt_tokens", "completion_tokens")


def _responses_usage(reported: object) -> Usage:
    return _read_usage(reported, "input_tokens", "output_tokens")


def _read_usage(reported: object, prompt: str, completion: str) -> Usage:
    """Copies the server's numbers unchecked; `token_normalization` validates them."""
    of_prompt, of_completion = (getattr(reported, f"{name}_details", None) for name in (prompt, completion))
    return Usage(
        prompt_tokens=getattr(reported, prompt, None),
        completion_tokens=getattr(reported, completion, None),
        total_tokens=getattr(reported, "total_tokens", None),
        cache_read_input_tokens=getattr(of_prompt, "cached_tokens", None),
        cache_creation_input_tokens=getattr(of_prompt, "cache_write_tokens", None),
        thinking_tokens=getattr(of_completion, "reasoning_tokens", None),
    )
