"""The Gemini API."""

from typing import Any

import httpx
from ag2.config.gemini import GeminiConfig
from google.genai.errors import APIError

from accounting.token_normalization import NORMALIZERS
from workflows.chat.chat_errors import ModelError
from workflows.chat.providers.provider import OpenModel, Provider, answer_timeout_s, httpx_options
from workflows.chat.providers.provider_errors import explain_transport, status_error
from workflows.models_file import GeminiModel

NAME = "gemini"


def open_model(spec: GeminiModel, key: str | None) -> OpenModel:
    client = GeminiHttpClient(spec.base_url, **httpx_options(spec))
    config = GeminiConfig(
        model=spec.model,
        api_key=key or "none",
        temperature=spec.temperature,
        max_output_tokens=spec.max_tokens,
        streaming=spec.stream,
        http_client=client,
    )
    return OpenModel(config, client.aclose, answer_timeout_s(spec), spec.stream)


class GeminiHttpClient(httpx.AsyncClient):
    """A client for Google's library with a timeout and another address.

    The library asks for no timeout, and AG2 cannot pass it an address."""

    def __init__(self, gateway: str | None, **options: Any) -> None:
        super().__init__(**options)
        self._gateway = httpx.URL(gateway) if gateway is not None else None

    def build_request(self, method: str, url: httpx.URL | str, **options: Any) -> httpx.Request:
        if options.get("timeout") is None:
            options["timeout"] = self.timeout
        return super().build_request(method, self._through_gateway(httpx.URL(url)), **options)

    def _through_gateway(self, url: httpx.URL) -> httpx.URL:
        if self._gateway is None:
            return url
        path = self._gateway.raw_path.rstrip(b"/") + url.raw_path
        return self._gateway.copy_with(raw_path=path)


def explain(error: Exception) -> ModelError | None:
    if isinstance(error, APIError):
        headers = getattr(error.response, "headers", None) or {}
        return status_error(NAME, error.code, error.details, headers)
    return explain_transport(NAME, error)


PROVIDER = Provider(open_model, explain, NORMALIZERS[NAME])
