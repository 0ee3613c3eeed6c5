"""Ollama's own chat API."""

import httpx
from ag2.config.ollama import OllamaConfig
from ollama import ResponseError

from accounting.token_normalization import NORMALIZERS
from workflows.chat.chat_errors import ModelError
from workflows.chat.providers.provider import OpenModel, Provider, answer_timeout_s, httpx_options
from workflows.chat.providers.provider_errors import explain_transport, status_error
from workflows.models_file import OllamaModel

NAME = "ollama"
DEFAULT_ADDRESS = "http://127.0.0.1:11434"


def open_model(spec: OllamaModel, key: str | None) -> OpenModel:
    client = httpx.AsyncClient(**httpx_options(spec))
    config = OllamaConfig(  # type: ignore[abstract]  # AG2 stores no files with Ollama and raises when asked to
        model=spec.model,
        host=spec.base_url or DEFAULT_ADDRESS,
        api_key=key,
        temperature=spec.temperature,
        max_tokens=spec.max_tokens,
        streaming=spec.stream,
        http_client=client,
    )
    return OpenModel(config, client.aclose, answer_timeout_s(spec), spec.stream)


def explain(error: Exception) -> ModelError | None:
    if isinstance(error, ResponseError):
        # In the middle of a stream there is no status: the library reports -1.
        return status_error(NAME, error.status_code, error.error, {})
    return explain_transport(NAME, error)


# An older server sends no finish reason; AG2 reads the model's name from the last part of a stream.
PROVIDER = Provider(open_model, explain, NORMALIZERS[NAME], is_whole=lambda answer: answer.model is not None)
