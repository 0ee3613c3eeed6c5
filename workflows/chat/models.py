"""Models: aliases of the models file to metered AG2 configurations, built once per process."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from ag2.config import ModelConfig, OpenAIConfig
from openai import APIConnectionError, APIError, APIStatusError

from workflows.chat.errors import ModelError, PackageDefect
from workflows.chat.meter import normalised
from workflows.chat.script import TRANSIENT_STATUS, ScriptConfig, read_script
from workflows.chat.turn_client import ChatModelConfig
from workflows.models_file import ModelSpec, OpenAIModel

_NUMBER = re.compile(r"[0-9]{1,9}(\.[0-9]{0,9})?")

ResolveSecret = Callable[[str], str]

CALL_TIMEOUT_S = 120.0  # the SDK's own default is ten minutes, three times


class Models:
    def __init__(self, specs: Mapping[str, ModelSpec], resolve_secret: ResolveSecret) -> None:
        self._specs = specs
        self._resolve_secret = resolve_secret
        self._built: dict[str, ChatModelConfig] = {}

    def get(self, alias: str) -> ChatModelConfig:
        if alias not in self._built:
            self._built[alias] = self._build(alias)
        return self._built[alias]

    def _build(self, alias: str) -> ChatModelConfig:
        spec = self._specs.get(alias)
        if spec is None:
            known = ", ".join(sorted(self._specs)) or "none"
            raise PackageDefect(f"the models file has no alias {alias!r}; it has {known}")
        config: ModelConfig
        config = self._openai(spec) if isinstance(spec, OpenAIModel) else ScriptConfig(read_script(spec.file))
        return ChatModelConfig(config, provider=spec.provider, explain=explain_openai_error, normalise=normalised)

    def _openai(self, spec: OpenAIModel) -> OpenAIConfig:
        # A local server needs no key, but the SDK insists on one.
        options: dict[str, Any] = {"api_key": self._key(spec.api_key) if spec.api_key else "none"}
        if spec.temperature is not None:
            options["temperature"] = spec.temperature
        timeout = CALL_TIMEOUT_S if spec.timeout is None else spec.timeout.total_seconds()
        return OpenAIConfig(
            model=spec.model,
            base_url=spec.base_url,
            streaming=spec.stream,
            timeout=timeout,
            max_retries=0,  # retries are ours, and each of them is a row in the ledger
            **options,
        )

    def _key(self, reference: str) -> str:
        try:
            return self._resolve_secret(reference)
        except ValueError as error:  # how a secret is resolved is our caller's; that it could not be is said here
            raise PackageDefect(f"the models file: {error}") from None


def explain_openai_error(error: Exception) -> ModelError | None:
    """None for what is not the model's doing."""
    if isinstance(error, APIStatusError):
        retry_after = error.response.headers.get("retry-after", "")
        return ModelError(
            f"the model server answered {error.status_code}",
            transient=error.status_code in TRANSIENT_STATUS or error.status_code >= 500,
            retry_after_s=float(retry_after) if _NUMBER.fullmatch(retry_after) else None,
        )
    if isinstance(error, APIConnectionError):
        return ModelError(f"the model server cannot be reached: {type(error).__name__}", transient=True)
    if isinstance(error, APIError):
        return ModelError("the model server's answer cannot be read", transient=True)
    return None
