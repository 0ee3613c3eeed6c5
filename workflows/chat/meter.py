"""The meter: counts, times and records every model call of a run, before its answer is used."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from ag2.config import LLMClient, ModelConfig, ModelProvider
from ag2.context import ConversationContext
from ag2.events import BaseEvent, ModelResponse, Usage
from ag2.files.protocol import FilesClient

from accounting.uninterrupted import to_its_end
from accounting.usage import ModelCall, Tokens
from workflows.chat.errors import LimitReached, ModelError

RecordUsage = Callable[[ModelCall], Awaitable[None]]
ExplainError = Callable[[Exception], ModelError | None]

_METER = "unattended.meter"


@dataclass(slots=True)
class RunMeter:
    """Shared by all turns of one run under one lease: call numbers never repeat within a lease token."""

    record: RecordUsage
    max_calls: int
    earlier_calls: int = 0  # of this run under earlier leases: the limit is the run's
    calls: int = 0
    failed_by_agent: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class TurnMeter:
    run: RunMeter
    agent: str
    tokens: dict[str, int] = field(default_factory=lambda: {"input": 0, "output": 0})

    @property
    def failed_calls(self) -> int:
        return self.run.failed_by_agent.get(self.agent, 0)

    def dependencies(self) -> dict[Any, Any]:
        return {_METER: self}


def meter_of(context: ConversationContext) -> TurnMeter:
    meter: TurnMeter = context.dependencies[_METER]
    return meter


class MeteredClient(LLMClient):
    """Wraps a provider's client. Every call passes here exactly once, also those that fail or are cancelled."""

    def __init__(self, inner: LLMClient, *, provider: str, model: str, explain: ExplainError) -> None:
        self._inner = inner
        self._provider = provider
        self._model = model
        self._explain = explain

    async def __call__(
        self, messages: Sequence[BaseEvent], context: ConversationContext, **request: Any
    ) -> ModelResponse:
        meter = meter_of(context)
        call = _OpenCall(meter, self._provider, self._model)
        try:
            response = await self._inner(messages, context, **request)
        except asyncio.CancelledError:
            await call.record(None, error="Cancelled")
            raise
        except Exception as error:
            failed = meter.run.failed_by_agent
            failed[meter.agent] = failed.get(meter.agent, 0) + 1
            await call.record(None, error=type(error).__name__)
            raise self._as_model_error(error) from error
        await call.record(response, error=None)
        return _with_readable_arguments(response)

    def _as_model_error(self, error: Exception) -> ModelError:
        """Whatever goes wrong between the request and a readable answer is the model's failure, not the package's."""
        if isinstance(error, ModelError):
            return error
        unexplained = ModelError(f"the model's answer cannot be used: {type(error).__name__}", transient=False)
        return self._explain(error) or unexplained


class _OpenCall:
    def __init__(self, meter: TurnMeter, provider: str, model: str) -> None:
        run = meter.run
        if run.earlier_calls + run.calls >= run.max_calls:
            raise LimitReached(f"the run's limit of {run.max_calls} model calls is reached")
        run.calls += 1
        self._number = run.calls
        self._meter = meter
        self._labels = (provider, model)
        self._started_at = datetime.now(UTC)
        self._started = time.perf_counter()

    async def record(self, response: ModelResponse | None, *, error: str | None) -> None:
        usage = response.usage if response is not None else Usage()
        provider, model = self._labels
        call = ModelCall(
            number=self._number,
            agent=self._meter.agent,
            provider=provider,
            model=model,
            tokens=normalised(usage),
            status="reported" if usage else "missing",
            ok=error is None,
            error=error,
            started_at=self._started_at,
            duration_s=time.perf_counter() - self._started,
        )
        self._meter.tokens["input"] += call.tokens.input
        self._meter.tokens["output"] += call.tokens.output
        await to_its_end(self._meter.run.record(call))  # what was served is owed, also by a run that is cancelled


def normalised(usage: Usage) -> Tokens:
    """OpenAI's meaning, which `script` shares: prompt includes cached, completion includes reasoning."""
    return Tokens(
        input=int(usage.prompt_tokens or 0),
        cached_input=int(usage.cache_read_input_tokens or 0),
        cache_write=int(usage.cache_creation_input_tokens or 0),
        output=int(usage.completion_tokens or 0),
        reasoning=int(usage.thinking_tokens or 0),
    )


def _with_readable_arguments(response: ModelResponse) -> ModelResponse:
    """A model may send arguments that are not JSON. AG2 would answer the tool call with an error and then fail
    on the same text when it builds the next request, so it is replaced here by what the tool can refuse."""
    for call in response.tool_calls.calls:
        try:
            readable = isinstance(json.loads(call.arguments or "{}"), Mapping)
        except (ValueError, RecursionError):  # also numbers of 5 000 digits, and endless nesting
            readable = False
        if not readable:
            call.arguments = json.dumps({"unreadable_arguments": call.arguments[:200]})
    return response


class MeteredConfig(ModelConfig):
    """One client per model and process: AG2 asks for a client on every turn, and a fresh one costs 16 ms."""

    def __init__(self, config: ModelConfig, *, provider: str, explain: ExplainError) -> None:
        self._config = config
        self._provider = provider
        self._explain = explain
        self._client: MeteredClient | None = None

    @property
    def provider(self) -> ModelProvider:
        return self._config.provider

    @property
    def model(self) -> str:
        return self._config.model

    def copy(self) -> "MeteredConfig":
        return self

    def create(self) -> MeteredClient:
        if self._client is None:
            self._client = MeteredClient(
                self._config.create(), provider=self._provider, model=self._config.model, explain=self._explain
            )
        return self._client

    def create_files_client(self) -> FilesClient[Any]:
        return self._config.create_files_client()
