"""Models: AG2 configurations by alias, built once per process, closed with it."""

import asyncio
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from workflows.chat.chat_errors import ModelError, PackageDefect
from workflows.chat.model_call.metered_client import ExplainError
from workflows.chat.model_call.turn_client import ChatModelConfig
from workflows.chat.providers.provider import Provider
from workflows.context.redaction import Redactor
from workflows.models_file import HostedModel, ModelSpec, ScriptModel
from workflows.provider_libraries import describe_missing_library

ResolveSecret = Callable[[str], str]


class ModelRegistry:
    def __init__(self, specs: Mapping[str, ModelSpec], resolve_secret: ResolveSecret) -> None:
        self._specs = specs
        self._resolve_secret = resolve_secret
        self._built: dict[str, ChatModelConfig] = {}
        self._build_lock = threading.Lock()  # packages are built in threads: of two clients, one would never be closed

    def get(self, alias: str) -> ChatModelConfig:
        with self._build_lock:
            if alias not in self._built:
                self._built[alias] = self._build(alias)
            return self._built[alias]

    async def close(self) -> None:
        """Closes the models on the loop that used them; open calls are cut off."""
        with self._build_lock:
            built, self._built = self._built, {}
        await asyncio.gather(*(model.close() for model in built.values()), return_exceptions=True)

    def _build(self, alias: str) -> ChatModelConfig:
        try:
            spec = self._specs[alias]
        except KeyError:
            known = ", ".join(sorted(self._specs)) or "none"
            raise PackageDefect(f"the models file has no alias {alias!r}; it has {known}") from None
        provider = _load_provider(alias, spec.provider)
        key = self._resolve_key(spec)
        opened = provider.open(spec, key)
        if key is not None:
            provider = replace(provider, explain=_redact_key(key, provider.explain))
        return ChatModelConfig(opened, provider, name=spec.provider)

    def _resolve_key(self, spec: ModelSpec) -> str | None:
        if not isinstance(spec, HostedModel) or spec.api_key is None:
            return None
        try:
            return self._resolve_secret(spec.api_key)
        except ValueError as error:  # the caller resolves secrets; the failure becomes a defect here
            raise PackageDefect(f"the models file: {error}") from None


def scripted_models(path: Path) -> ModelRegistry:
    """Answers every alias from this file.

    A package can be tried without a model, a key or a models file."""
    spec = ScriptModel(provider="script", file=path)
    return ModelRegistry(defaultdict(lambda: spec), str)


def _redact_key(key: str, explain: ExplainError) -> ExplainError:
    """Removes the key from errors: a server may repeat a key that it refuses."""
    redactor = Redactor((key,))

    def explain_redacted(error: Exception) -> ModelError | None:
        model_error = explain(error)
        if model_error is None:
            return None
        return ModelError(
            redactor.redact_text(str(model_error)),
            transient=model_error.transient,
            retry_after_s=model_error.retry_after_s,
        )

    return explain_redacted


def _load_provider(alias: str, name: str) -> Provider:
    problem = describe_missing_library(name)
    if problem is not None:
        raise PackageDefect(f"models.{alias}: {problem}")
    try:
        provider: Provider = import_module(f"workflows.chat.providers.{name}").PROVIDER
    except ImportError as error:  # installed but broken, or of a version that AG2 does not support
        raise PackageDefect(f"models.{alias}: the library of provider {name} cannot be loaded: {error}") from None
    return provider
