"""OpenAI's chat completions, and every server with the same protocol."""

from functools import partial
from typing import Any

from openai import APIConnectionError, APIError, APIStatusError, APITimeoutError

from accounting.token_normalization import NORMALIZERS
from workflows.chat.chat_errors import ModelError
from workflows.chat.providers.connections import pooled_client
from workflows.chat.providers.openai_clients import ChatConfig
from workflows.chat.providers.prompt_cache import CacheOption, cache_key_parameter
from workflows.chat.providers.provider import OpenModel, Provider, answer_timeout_s
from workflows.chat.providers.provider_errors import explain_transport, status_error, unreadable_answer_error
from workflows.models_file import HostedModel, OpenAIModel, XAIModel

PLACEHOLDER_KEY = "none"  # a local server needs no key, but the library requires one


def open_model(
    spec: OpenAIModel | XAIModel,
    key: str | None,
    *,
    address: str | None = None,
    cache_option: CacheOption = cache_key_parameter,
) -> OpenModel:
    """Opens a model.

    `address` is the default address of another provider with OpenAI's protocol."""
    client = pooled_client(answer_timeout_s(spec))
    options = client_options(spec, key)
    options["base_url"] = spec.base_url or address
    if spec.max_tokens is not None:
        # OpenAI's newer models refuse the old name, and other servers of the protocol often know only the old one.
        options["max_completion_tokens" if spec.base_url is None else "max_tokens"] = spec.max_tokens
    config = ChatConfig(http_client=client, timeout=client.timeout, **options)
    return OpenModel(
        config, client.aclose, answer_timeout_s(spec), spec.stream, cache_option if spec.sends_cache_key else None
    )


def client_options(spec: HostedModel, key: str | None) -> dict[str, Any]:
    options: dict[str, Any] = {} if spec.temperature is None else {"temperature": spec.temperature}
    return {
        **options,
        "model": spec.model,
        "api_key": key or PLACEHOLDER_KEY,
        "base_url": spec.base_url,
        "streaming": spec.stream,
        "max_retries": 0,  # we retry, and each retry is a row in the ledger
    }


def explain(provider: str, error: Exception) -> ModelError | None:
    if isinstance(error, APIStatusError):
        return status_error(provider, error.status_code, error.body, error.response.headers)
    if isinstance(error, APIConnectionError):
        reason = TimeoutError() if isinstance(error, APITimeoutError) else error.__cause__ or ConnectionError()
        return explain_transport(provider, reason)
    if isinstance(error, APIError) and error.body:  # in the middle of a stream
        return status_error(provider, 200, error.body, {})
    if isinstance(error, APIError):
        return unreadable_answer_error(provider, error)
    return explain_transport(provider, error)


PROVIDER = Provider(open_model, partial(explain, "openai"), NORMALIZERS["openai"])
