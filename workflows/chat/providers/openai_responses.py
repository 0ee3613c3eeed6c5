"""OpenAI's Responses API."""

from functools import partial

from accounting.token_normalization import NORMALIZERS
from workflows.chat.providers.connections import pooled_client
from workflows.chat.providers.openai import client_options, explain
from workflows.chat.providers.openai_clients import ResponsesConfig
from workflows.chat.providers.prompt_cache import cache_key_parameter
from workflows.chat.providers.provider import OpenModel, Provider, answer_timeout_s
from workflows.models_file import OpenAIResponsesModel


def open_model(spec: OpenAIResponsesModel, key: str | None) -> OpenModel:
    client = pooled_client(answer_timeout_s(spec))
    options = client_options(spec, key)
    if spec.max_tokens is not None:
        options["max_output_tokens"] = spec.max_tokens
    config = ResponsesConfig(http_client=client, timeout=client.timeout, **options)
    return OpenModel(
        config,
        client.aclose,
        answer_timeout_s(spec),
        spec.stream,
        cache_key_parameter if spec.sends_cache_key else None,
    )


PROVIDER = Provider(open_model, partial(explain, "openai_responses"), NORMALIZERS["openai_responses"])
