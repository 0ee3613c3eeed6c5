"""Models: aliases of the models file to metered AG2 configurations, built once per process, closed with it."""

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
        self._build_lock = threading.Lock()  # packages are built in threads: two clients would be one too many to close

    def get(self, alias: str) -> ChatModelConfig:
        with self._build_lock:
            if alias not in self._built:
                self._built[alias] = self._build(alias)
            return self._built[alias]

    async def close(self) -> None:
        """On the loop that asked them. Who is still asking is cut off."""
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
        except ValueError as error:  # how a secret is resolved is our caller's; that it could not be is said here
            raise PackageDefect(f"the models file: {error}") from None


def scripted_models(path: Path) -> ModelRegistry:
    """Every alias is answered from this file: a package can be tried without a model, a key or a models file."""
    spec = ScriptModel(provider="script", file=path)
    return ModelRegistry(defaultdict(lambda: spec), str)


def _redact_key(key: str, explain: ExplainError) -> ExplainError:
    """A server may repeat the key that it refuses."""
    redactor = Redactor((key,))

    def explain_redacted(error: Exception) -> ModelError | None:
        said = explain(error)
        if said is None:
            return None
        return ModelError(redactor.redact_text(str(said)), transient=said.transient, retry_after_s=said.retry_after_s)

    return explain_redacted


def _load_provider(alias: str, name: str) -> Provider:
    problem = describe_missing_library(name)
    if problem is not None:
        raise PackageDefect(f"models.{alias}: {problem}")
    try:
        provider: Provider = import_module(f"workflows.chat.providers.{name}").PROVIDER
    except ImportError as error:  # there, and broken, or of a version that AG2 does not know
        raise PackageDefect(f"models.{alias}: the library of provider {name} cannot be loaded: {error}") from None
    return provider
