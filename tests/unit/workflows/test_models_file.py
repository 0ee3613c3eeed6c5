"""The models file: aliases, and messages about invalid entries."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from accounting.usage import Tokens
from workflows.models_file import (
    AnthropicModel,
    HostedModel,
    ModelsFileError,
    OllamaModel,
    OpenAIModel,
    ScriptModel,
    find_models_path,
    read_models_file,
)
from workflows.package.catalog import LIBRARY


def write(folder: Path, text: str) -> Path:
    path = folder / "models.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def problem(folder: Path, text: str) -> str:
    with pytest.raises(ModelsFileError) as caught:
        read_models_file(write(folder, text))
    return str(caught.value).removeprefix(f"{folder / 'models.yaml'}: ")


def test_aliases_prices_and_a_script_beside_the_file(tmp_path: Path) -> None:
    models = read_models_file(
        write(
            tmp_path,
            """
            models:
              default: {provider: openai, model: gpt-5-mini, api_key: env:OPENAI_API_KEY, timeout: 30s, stream: true}
              local: {provider: openai, model: smollm2, base_url: "http://127.0.0.1:1/v1", temperature: 0}
              canned: {provider: script, file: answers.yaml}
            prices:
              - {provider: openai, model: "gpt-5-mini*", input: 0.1, cached_input: 0.01, output: 2.0, from: 2026-01-01}
            """,
        )
    )

    assert models.models["default"] == OpenAIModel(
        provider="openai", model="gpt-5-mini", api_key="env:OPENAI_API_KEY", timeout=timedelta(seconds=30), stream=True
    )
    assert models.models["canned"] == ScriptModel(provider="script", file=tmp_path / "answers.yaml")
    first = models.prices.own.prices[0]
    assert (first.input, first.cached_input, first.since) == (Decimal("0.1"), Decimal("0.01"), date(2026, 1, 1))


def test_a_price_of_the_file_comes_before_the_built_in_one_from_its_day_on(tmp_path: Path) -> None:
    prices = read_models_file(
        write(tmp_path, "{models: {}, prices: [{model: gpt-5-mini, input: 9, output: 9, from: 2026-01-01}]}")
    ).prices

    costs = [
        prices.cost(Tokens(input=1), provider="openai", model="gpt-5-mini", at=datetime(year, 12, 31, tzinfo=UTC))
        for year in (2025, 2026)
    ]

    assert costs == [250, 9000]


def test_the_shipped_models_file_is_valid() -> None:
    models = read_models_file(LIBRARY / "models.yaml")

    default = models.models["default"]
    assert isinstance(default, ScriptModel)
    assert default.file.is_file()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("models: [", "line 2, column 1: "),
        ("[]", "models must be a mapping"),
        ("models: 5", "models must be a mapping"),
        (
            "models: {a: x}",
            "models.a.provider: None is not one of anthropic, bedrock, gemini, mistral, ollama, openai,",
        ),
        (
            "models: {a: {provider: magic}}",
            "models.a.provider: 'magic' is not one of anthropic, bedrock, gemini, mistral, ollama, openai,",
        ),
        ("models: {a: {provider: openai}}", "models.a.model: Field required"),
        ("models: {a: {provider: openai, model: ''}}", "models.a.model: "),
        ("models: {a: {provider: openai, model: m, modle: x}}", "models.a.modle: Extra inputs are not permitted"),
        ("models: {a: {provider: openai, model: m, timeout: soon}}", "models.a.timeout: write a duration"),
        ("models: {a: {provider: openai, model: m, timeout: 0}}", "models.a.timeout: "),
        ("models: {a: {provider: openai, model: m, temperature: .nan}}", "models.a.temperature: "),
        ("models: {a: {provider: openai, model: m, temperature: -1}}", "models.a.temperature: "),
        ("models: {a: {provider: openai, model: m, max_tokens: 0}}", "models.a.max_tokens: "),
        ("models: {a: {provider: openai, model: m, base_url: localhost}}", "models.a.base_url: write a URL such as"),
        (
            "models: {a: {provider: openai, model: m, base_url: 'file:///x'}}",
            "models.a.base_url: write a URL such as",
        ),
        (
            "models: {a: {provider: openai, model: m, base_url: 'http://[x'}}",
            "models.a.base_url: write a URL such as",
        ),
        (
            "models: {a: {provider: anthropic, model: m}}",
            "models.a: api_key: is required without base_url",
        ),
        ("models: {a: {provider: gemini, model: m}}", "models.a: api_key: is required without base_url"),
        ("models: {a: {provider: ollama}}", "models.a.model: Field required"),
        ("models: {a: {provider: script, file: f, model: m}}", "models.a.model: Extra inputs are not permitted"),
        ("models: {a: {provider: script}}", "models.a.file: Field required"),
        ("{models: {}, prices: 5}", "prices must be a list"),
        ("{models: {}, prices: {input: 1}}", "prices must be a list"),
        (
            "models: {a: {provider: mistral, model: m}}",
            "models.a: api_key: is required without base_url",
        ),
        ("models: {a: {provider: xai, model: m}}", "models.a: api_key: is required without base_url"),
        ("models: {a: {provider: bedrock, model: m}}", "models.a.region: Field required"),
        (
            "models: {a: {provider: bedrock, model: m, region: Frankfurt}}",
            "models.a.region: write the name of an AWS region, such as eu-central-1",
        ),
        ("{models: {}, price: []}", "'price' is not one of models, prices"),
        ("{models: {}, prices: [x]}", "prices[0]: write a mapping, such as {model:"),
        ("{models: {}, prices: [{input: 1}]}", "prices[0].output: Field required"),
        ("{models: {}, prices: [{input: -1, output: 1}]}", "prices[0].input: "),
        ("{models: {}, prices: [{input: .nan, output: 1}]}", "prices[0].input: "),
        ("{models: {}, prices: [{input: .inf, output: 1}]}", "prices[0].input: "),
        ("{models: {}, prices: [{input: much, output: 1}]}", "prices[0].input: write USD per million tokens, such as"),
        ("{models: {}, prices: [{input: 1, output: [1]}]}", "prices[0].output: write USD per million tokens, such as"),
        ("{models: {}, prices: [{input: 0.0000001, output: 1}]}", "prices[0].input: write USD per million tokens with"),
        (
            "{models: {}, prices: [{input: 1000001, output: 1}]}",
            "prices[0].input: Input should be less than",
        ),
        (
            "{models: {}, prices: [{input: 1, output: 1, from: soon}]}",
            "prices[0].from: write a day, such as 2026-12-31",
        ),
        ("{models: {}, prices: [{input: 1, output: 1, from: 2026-02-30}]}", "prices[0].from: write a day, such as "),
        (
            "{models: {}, prices: [{input: 1, output: 1, above_tokens: 200k}]}",
            "prices[0].above_tokens: write a number of tokens, such as 200000",
        ),
        ("{models: {}, prices: [{input: 1, output: 1, form: 2026-02-03}]}", "prices[0].form: Extra inputs are not"),
        (
            "{models: {}, prices: [{provider: opneai, input: 1, output: 1}]}",
            "prices[0].provider: 'opneai' matches none of anthropic, bedrock, gemini",
        ),
    ],
)
def test_an_unusable_entry_is_reported_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    assert problem(tmp_path, text).startswith(message)


def test_a_key_in_clear_text_is_refused_and_not_repeated(tmp_path: Path) -> None:
    message = problem(tmp_path, "models: {a: {provider: openai, model: m, api_key: sk-canary}}")

    assert message == "models.a: api_key: write env:NAME or file:PATH, never the key itself"


def test_a_password_in_an_address_is_refused_and_not_repeated(tmp_path: Path) -> None:
    message = problem(tmp_path, "models: {a: {provider: ollama, model: m, base_url: 'http://me:canary@127.0.0.1'}}")

    assert message == "models.a.base_url: write a URL such as https://models.example.com/v1, without user and password"


def test_every_provider_takes_what_its_users_expect(tmp_path: Path) -> None:
    common = "model: m, api_key: env:KEY, stream: true, temperature: 0.2, max_tokens: 100, timeout: 5m"
    providers = ("anthropic", "gemini", "mistral", "ollama", "openai", "openai_responses", "xai")
    text = "\n".join(
        f"  {provider}: {{provider: {provider}, base_url: 'https://x.example', {common}}}" for provider in providers
    )
    text += f"\n  bedrock: {{provider: bedrock, region: us-gov-west-1, base_url: 'https://x.example', {common}}}"

    models = read_models_file(write(tmp_path, f"models:\n{text}")).models

    assert {alias: spec.provider for alias, spec in models.items()} == {each: each for each in (*providers, "bedrock")}
    for spec in models.values():
        assert isinstance(spec, HostedModel)
        assert (spec.stream, spec.temperature, spec.max_tokens) == (True, 0.2, 100)
        assert spec.timeout == timedelta(minutes=5)


def test_a_server_of_ones_own_may_go_without_a_key(tmp_path: Path) -> None:
    text = "a: {provider: anthropic, model: m, base_url: 'http://127.0.0.1:1'}, b: {provider: ollama, model: m}"

    models = read_models_file(write(tmp_path, f"models: {{{text}}}")).models

    assert models["a"] == AnthropicModel(
        provider="anthropic", model="m", base_url="http://127.0.0.1:1", max_tokens=4096
    )
    assert models["b"] == OllamaModel(provider="ollama", model="m")


def test_an_absent_file_is_reported_by_name(tmp_path: Path) -> None:
    with pytest.raises(ModelsFileError, match=r"absent\.yaml cannot be read: No such file"):
        read_models_file(tmp_path / "absent.yaml")


def test_the_file_is_what_is_configured_else_here_else_the_librarys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_models_path(Path("mine.yaml"), library=LIBRARY) == tmp_path / "mine.yaml"
    assert find_models_path(None, library=LIBRARY) == LIBRARY / "models.yaml"

    write(tmp_path, "models: {}")
    assert find_models_path(None, library=LIBRARY) == tmp_path / "models.yaml"
