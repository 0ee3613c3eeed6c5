"""Anthropic's Messages API."""

from typing import Any, cast

from ag2.config.anthropic import AnthropicConfig
from anthropic import APIConnectionError, APIError, APIStatusError, APITimeoutError

from accounting.token_normalization import NORMALIZERS
from workflows.chat.chat_errors import ModelError
from workflows.chat.providers.connections import pooled_client
from workflows.chat.providers.provider import OpenModel, Provider, answer_timeout_s
from workflows.chat.providers.provider_errors import explain_transport, status_error, unreadable_answer_error
from workflows.models_file import AnthropicModel

NAME = "anthropic"
MAX_TOKENS = 4096


def open_model(spec: AnthropicModel, key: str | None) -> OpenModel:
    client = pooled_client(answer_timeout_s(spec))
    config = AnthropicConfig(
        model=spec.model,
        max_tokens=spec.max_tokens or MAX_TOKENS,
        api_key=key or "none",
        base_url=spec.base_url,
        temperature=spec.temperature,
        streaming=spec.stream,
        timeout=cast("Any", client.timeout),
        max_retries=0,
        http_client=client,
    )
    return OpenModel(config, client.aclose, answer_timeout_s(spec), spec.stream)


def explain(error: Exception) -> ModelError | None:
    # Also for an error in the middle of a stream, with the status of its beginning.
    if isinstance(error, APIStatusError):
        return status_error(NAME, error.status_code, error.body, error.response.headers)
    if isinstance(error, APIConnectionError):
        reason = TimeoutError() if isinstance(error, APITimeoutError) else error.__cause__ or ConnectionError()
        return explain_transport(NAME, reason)
    if isinstance(error, APIError):
        return unreadable_answer_error(NAME, error)
    return explain_transport(NAME, error)


PROVIDER = Provider(open_model, explain, NORMALIZERS[NAME])
