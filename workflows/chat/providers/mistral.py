"""Mistral's chat completions."""

import json
from collections.abc import Mapping
from typing import Any

from ag2.config.mistral import MistralConfig
from mistralai.client.errors import MistralError, NoResponseError, ResponseValidationError

from accounting.token_normalization import NORMALIZERS
from workflows.chat.chat_errors import ModelError
from workflows.chat.providers.connections import pooled_client
from workflows.chat.providers.prompt_cache import cache_key_parameter
from workflows.chat.providers.provider import OpenModel, Provider, answer_timeout_s
from workflows.chat.providers.provider_errors import (
    explain_transport,
    server_message,
    status_error,
    unreadable_answer_error,
)
from workflows.models_file import MistralModel

NAME = "mistral"


def open_model(spec: MistralModel, key: str | None) -> OpenModel:
    client = pooled_client(answer_timeout_s(spec))
    config = MistralConfig(
        model=spec.model,
        api_key=key or "none",  # without one, the library would read the environment
        server_url=spec.base_url,
        temperature=spec.temperature,
        max_tokens=spec.max_tokens,
        streaming=spec.stream,
        async_client=client,
    )
    return OpenModel(
        config,
        client.aclose,
        answer_timeout_s(spec),
        spec.stream,
        cache_key_parameter if spec.sends_cache_key else None,
    )


def explain(error: Exception) -> ModelError | None:
    if isinstance(error, ResponseValidationError):
        stream_error = _stream_error(error)
        return (
            status_error(NAME, 200, stream_error, {})
            if server_message(stream_error)
            else unreadable_answer_error(NAME, error)
        )
    if isinstance(error, MistralError):
        return status_error(NAME, error.status_code, _error_body(error), error.headers)
    if isinstance(error, NoResponseError):
        return explain_transport(NAME, ConnectionError())
    return explain_transport(NAME, error)


def _stream_error(error: ResponseValidationError) -> Any:
    """Returns the error event that the library took for a part of the answer."""
    body = _error_body(error)
    return body.get("data") if isinstance(body, Mapping) else None


def _error_body(error: MistralError) -> Any:
    try:
        return json.loads(error.body)
    except ValueError:
        return None


PROVIDER = Provider(open_model, explain, NORMALIZERS[NAME])
