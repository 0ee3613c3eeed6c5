"""A desk: one model of any provider, called directly without a chat."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from ag2 import Agent

from accounting.usage import ModelCall
from tests.integration.model_server import Answer, ModelServer, model_server
from tests.integration.workflows.protocols import ModelProtocol
from workflows.chat.chat_errors import ModelError
from workflows.chat.chat_state import ChatTimeouts, LiveTurn
from workflows.chat.model_call.fast_stream import FastStream
from workflows.chat.model_call.metered_client import RunMeter
from workflows.chat.providers.model_registry import ModelRegistry
from workflows.context.context_variables import ContextVariables
from workflows.context.redaction import Redactor
from workflows.models_file import read_models_file
from workflows.spans import NO_SPANS

KEY = "sk-canary-0815"


def models_of(protocol: ModelProtocol, server: ModelServer, folder: Path, **options: Any) -> ModelRegistry:
    spec = {
        "provider": protocol.provider,
        "model": "m",
        "base_url": server.root + protocol.version,
        "api_key": "env:KEY",
        **protocol.fields,
        **options,
    }
    file = folder / "models.yaml"
    file.write_text(json.dumps({"models": {"default": spec}}), encoding="utf-8")
    return ModelRegistry(read_models_file(file).models, lambda _: KEY)


@dataclass
class ModelDesk:
    """One model that is called directly, in a turn that serves its meter only."""

    models: ModelRegistry
    calls: list[ModelCall] = field(default_factory=list)

    async def ask(self, **options: Any) -> Any:
        agent = Agent("A", ["You are A."], config=self.models.get("default"))
        limits = SimpleNamespace(model_calls=10, tokens=None, usd=None, tool_calls=10)
        package = SimpleNamespace(orchestrator=SimpleNamespace(limits=limits))
        meter = RunMeter(self._record)
        own: dict[str, Any] = {"meter": meter, "counters": meter.counters, "package": package, "spans": NO_SPANS}
        own["timeouts"] = ChatTimeouts()
        chat = cast("Any", SimpleNamespace(**own, redactor=Redactor(), context=ContextVariables()))
        with LiveTurn(chat, "A", 1).as_current():
            return await agent.ask("How many?", stream=FastStream(), **options)

    async def answer_or_error(self) -> Any:
        try:
            return await self.ask()
        except ModelError as error:
            return error

    async def _record(self, call: ModelCall) -> None:
        self.calls.append(call)


@asynccontextmanager
async def desk(
    protocol: ModelProtocol, plan: Callable[[int], Answer], folder: Path, **options: Any
) -> AsyncIterator[tuple[ModelDesk, ModelServer]]:
    with model_server(plan) as server:
        models = models_of(protocol, server, folder, **options)
        try:
            yield ModelDesk(models), server
        finally:
            await models.close()


async def failed_call(
    protocol: ModelProtocol, answer: Answer, folder: Path, **options: Any
) -> tuple[ModelError, ModelCall]:
    async with desk(protocol, lambda _: answer, folder, **options) as (at, server):
        with pytest.raises(ModelError) as caught:
            await at.ask()
        assert len(server.requests) == 1  # the library tried once
    assert KEY not in str(caught.value)
    [call] = at.calls
    assert not call.ok
    return caught.value, call
