"""The model registry: clients by alias, opened once, closed together; bad aliases."""

import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from ag2.config import LLMClient
from ag2.events import ModelResponse

from workflows import provider_libraries
from workflows.chat.chat_errors import ModelError, PackageDefect
from workflows.chat.providers.model_registry import ModelRegistry, scripted_models
from workflows.chat.providers.provider import DeadlineClient
from workflows.models_file import (
    AnthropicModel,
    BedrockModel,
    GeminiModel,
    MistralModel,
    ModelSpec,
    OllamaModel,
    OpenAIModel,
    OpenAIResponsesModel,
    ScriptModel,
)
from workflows.provider_libraries import describe_missing_library

OPENAI = OpenAIModel(provider="openai", model="gpt-5-mini", api_key="env:KEY")


def test_a_key_is_resolved_once_and_one_client_serves_all() -> None:
    asked: list[str] = []

    def resolve(reference: str) -> str:
        asked.append(reference)
        return "sk-canary"

    models = ModelRegistry({"default": OPENAI}, resolve)

    first, second = models.get("default"), models.get("default")

    assert first is second
    assert first.create() is second.copy().create()
    assert asked == ["env:KEY"]
    assert "sk-canary" not in repr(models) + repr(first)
    assert first.model == "gpt-5-mini"


def test_an_alias_is_opened_once_also_when_many_ask_at_the_same_time() -> None:
    models = ModelRegistry({"default": OPENAI}, str)

    with ThreadPoolExecutor(8) as threads:
        opened = set(threads.map(lambda _: id(models.get("default")), range(64)))

    assert len(opened) == 1


@pytest.mark.parametrize(
    "spec",
    [OPENAI, OpenAIResponsesModel(provider="openai_responses", model="gpt-5-mini")],
    ids=lambda each: each.provider,
)
async def test_closing_closes_the_http_client_of_every_model(spec: ModelSpec) -> None:
    models = ModelRegistry({"default": spec, "other": spec, "unused": spec}, str)
    opened = [models.get(alias)._open_model for alias in ("default", "other")]
    clients = [each.config.http_client for each in opened]  # type: ignore[attr-defined]  # both have one
    assert len(set(map(id, clients))) == 2

    await models.close()
    await models.close()

    assert [client.is_closed for client in clients] == [True, True]


async def test_one_that_cannot_be_closed_does_not_keep_the_others_open() -> None:
    models = ModelRegistry({"bad": OPENAI, "good": OPENAI}, str)
    bad, good = models.get("bad"), models.get("good")

    async def fails() -> None:
        raise OSError

    object.__setattr__(bad._open_model, "close", fails)

    await models.close()

    assert good._open_model.config.http_client.is_closed  # type: ignore[attr-defined]  # OpenAI's has one


def test_an_unknown_alias_names_those_there_are() -> None:
    with pytest.raises(PackageDefect, match=r"the models file has no alias 'x'; it has a, b"):
        ModelRegistry({"b": OPENAI, "a": OPENAI}, str).get("x")


def test_a_key_that_is_not_there_is_a_defect() -> None:
    def resolve(reference: str) -> str:
        raise ValueError(f"the secret {reference} is not set")

    with pytest.raises(PackageDefect, match=r"^the models file: the secret env:KEY is not set$"):
        ModelRegistry({"default": OPENAI}, resolve).get("default")


def test_a_script_that_is_not_there_is_a_defect(tmp_path: Path) -> None:
    models = ModelRegistry({"default": ScriptModel(provider="script", file=tmp_path / "absent.yaml")}, str)

    with pytest.raises(PackageDefect, match=r"absent\.yaml cannot be read"):
        models.get("default")


def test_one_script_can_answer_for_every_alias(tmp_path: Path) -> None:
    file = tmp_path / "answers.yaml"
    file.write_text("default: {text: done}", encoding="utf-8")

    models = scripted_models(file)

    assert [models.get(alias).model for alias in ("default", "anything")] == ["script", "script"]


@pytest.mark.parametrize(
    ("spec", "module"),
    [
        (AnthropicModel(provider="anthropic", model="m", api_key="env:KEY"), "anthropic"),
        (GeminiModel(provider="gemini", model="m", api_key="env:KEY"), "google.genai"),
        (BedrockModel(provider="bedrock", model="m", region="eu-central-1"), "aiobotocore"),
        (MistralModel(provider="mistral", model="m", api_key="env:KEY"), "mistralai.client"),
        (OllamaModel(provider="ollama", model="m"), "ollama"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_a_missing_library_is_reported_with_its_remedy(
    spec: ModelSpec, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provider_libraries, "find_spec", lambda name: None if name == module else object())
    said = (
        f"models.default: the library of provider {spec.provider} is not installed; install Unattended with the extra: "
        f"pip install -c constraints.txt -e '.[{spec.provider}]'"
    )

    with pytest.raises(PackageDefect) as caught:
        ModelRegistry({"default": spec}, str).get("default")

    assert str(caught.value) == said
    assert describe_missing_library("openai") is describe_missing_library("xai") is None


def test_a_library_whose_parent_is_missing_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(provider_libraries, "find_spec", nothing)

    assert describe_missing_library("gemini") is not None


def test_a_library_that_cannot_be_loaded_is_a_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "workflows.chat.providers.ollama", None)

    with pytest.raises(PackageDefect, match=r"^models.default: the library of provider ollama cannot be loaded: "):
        ModelRegistry({"default": OllamaModel(provider="ollama", model="m")}, str).get("default")


async def test_an_answer_that_does_not_end_is_none() -> None:
    class Endless(LLMClient):
        async def __call__(self, *_: object, **__: object) -> ModelResponse:
            await asyncio.Event().wait()
            raise AssertionError

    client = DeadlineClient(Endless(), provider="ollama", timeout_s=0.001)

    with pytest.raises(ModelError, match=r"^ollama sent no complete answer within 0.001 s$") as caught:
        await client([], None)  # type: ignore[arg-type]  # it is not looked at

    assert caught.value.transient


async def test_the_time_limit_of_a_library_is_not_ours() -> None:
    class Impatient(LLMClient):
        async def __call__(self, *_: object, **__: object) -> ModelResponse:
            raise TimeoutError("the library's own")

    with pytest.raises(TimeoutError, match="the library's own"):
        await DeadlineClient(Impatient(), provider="ollama", timeout_s=60)([], None)  # type: ignore[arg-type]  # as above
