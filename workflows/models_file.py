"""The models file: alias to provider, model, key and prices.

Reading it loads no provider's library.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Literal, get_args
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator, model_validator

from accounting.prices import Price, PriceTable
from workflows.package.files.data_files import read_data_file
from workflows.package.findings import PackageError
from workflows.package.trigger_specs.spec_field_types import Duration

_FILE_KEYS = ("models", "prices")
_REGION = re.compile(r"[a-z]{2,3}(-[a-z]+)+-[0-9]{1,2}")

# More digits would make the cost of the largest calls inexact.
_Amount = Annotated[Decimal, Field(ge=0, le=1_000_000, decimal_places=6)]

# Replaces messages of pydantic that name its own types. A key is the beginning of pydantic's error type.
PROBLEM_WORDS: Mapping[str, str] = {
    "model_type": 'write a mapping, such as {model: "gpt-5*", input: 1.25, output: 10}',
    "decimal_max_places": "write USD per million tokens with at most 6 decimal places",
    "decimal": "write USD per million tokens, such as 1.25",
    "int": "write a number of tokens, such as 200000",
    "date": "write a day, such as 2026-12-31",
}


class ModelsFileError(ValueError):
    """The models file is invalid; the text names the file and the field."""


class _StrictModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())


class ScriptModel(_StrictModel):
    provider: Literal["script"]
    file: Path


class HostedModel(_StrictModel):
    """Fields of every model behind a server."""

    model: str = Field(min_length=1)
    base_url: str | None = None
    api_key: str | None = None
    stream: bool = False
    temperature: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    max_tokens: int | None = Field(default=None, gt=0)
    timeout: Duration | None = None

    @model_validator(mode="after")
    def _check_key_reference(self) -> "HostedModel":
        if self.api_key is not None and not self.api_key.startswith(("env:", "file:")):
            raise ValueError("api_key: write env:NAME or file:PATH, never the key itself")
        return self

    @field_validator("base_url")
    @classmethod
    def _check_address(cls, value: str | None) -> str | None:
        if value is not None and not _is_address(value):
            raise ValueError("write a URL such as https://models.example.com/v1, without user and password")
        return value

    @field_validator("timeout")
    @classmethod
    def _check_timeout(cls, value: timedelta | None) -> timedelta | None:
        if value is not None and value <= timedelta(0):
            raise ValueError("must be more than 0s")
        return value


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and "@" not in parts.netloc
    except ValueError:
        return False


class _KeyedModel(HostedModel):
    """A model that requires a key, unless `base_url` names another server."""

    @model_validator(mode="after")
    def _check_provider_key(self) -> "_KeyedModel":
        if self.api_key is None and self.base_url is None:
            raise ValueError("api_key: is required without base_url; write env:NAME or file:PATH")
        return self


class CachedModel(HostedModel):
    """A model of a provider that accepts a prompt cache key.

    A server at a `base_url` may reject the unknown field, so it gets the key only if `prompt_cache_key` is true.
    """

    prompt_cache_key: bool | None = None

    @property
    def sends_cache_key(self) -> bool:
        return self.base_url is None if self.prompt_cache_key is None else self.prompt_cache_key


class OpenAIModel(CachedModel):
    """Chat completions of OpenAI, or of a compatible server at `base_url`."""

    provider: Literal["openai"]


class OpenAIResponsesModel(CachedModel):
    """The Responses API of OpenAI, or of a compatible server at `base_url`."""

    provider: Literal["openai_responses"]


class AnthropicModel(_KeyedModel):
    """The Messages API of Anthropic, which requires `max_tokens`."""

    provider: Literal["anthropic"]
    max_tokens: int | None = Field(default=4096, gt=0)


class GeminiModel(_KeyedModel):
    """The Gemini API; `base_url` is the address of a gateway in front of it."""

    provider: Literal["gemini"]


class MistralModel(_KeyedModel, CachedModel):
    """Chat completions of Mistral."""

    provider: Literal["mistral"]


class XAIModel(_KeyedModel, CachedModel):
    """Chat completions of xAI: OpenAI's API with another way to count tokens."""

    provider: Literal["xai"]


class BedrockModel(HostedModel):
    """The Converse API of Amazon Bedrock.

    Without `api_key` it uses the AWS credentials of this machine.
    """

    provider: Literal["bedrock"]
    region: str

    @field_validator("region")
    @classmethod
    def _check_region(cls, value: str) -> str:
        if _REGION.fullmatch(value) is None:
            raise ValueError("write the name of an AWS region, such as eu-central-1")
        return value


class OllamaModel(HostedModel):
    """Ollama at `base_url`, by default on this machine."""

    provider: Literal["ollama"]


ModelSpec = (
    ScriptModel
    | OpenAIModel
    | OpenAIResponsesModel
    | AnthropicModel
    | GeminiModel
    | BedrockModel
    | MistralModel
    | XAIModel
    | OllamaModel
)
# By the provider's name, read from the type of its field.
_SPEC_BY_PROVIDER: Mapping[str, type[ModelSpec]] = {
    get_args(spec.model_fields["provider"].annotation)[0]: spec for spec in get_args(ModelSpec)
}


@dataclass(frozen=True, slots=True)
class ModelsFile:
    path: Path
    models: Mapping[str, ModelSpec]
    prices: PriceTable


def models_file_schema() -> dict[str, Any]:
    """Builds the JSON Schema from the specs themselves."""
    definitions: dict[str, Any] = {}

    def build_entry(kind: Any) -> dict[str, Any]:
        schema: dict[str, Any] = TypeAdapter(kind).json_schema(ref_template="#/definitions/{model}")
        definitions.update(schema.pop("$defs", {}))
        return schema

    model = {"anyOf": [build_entry(spec) for spec in _SPEC_BY_PROVIDER.values()]}
    properties = {
        "models": {"type": "object", "additionalProperties": model},
        "prices": {"type": ["array", "null"], "items": build_entry(PriceEntry)},
    }
    shape = {"type": "object", "additionalProperties": False, "required": ["models"]}
    return {**shape, "properties": properties, "definitions": definitions}


def find_models_path(configured: Path | None, *, library: Path) -> Path:
    """Returns the configured file, ./models.yaml, or the canned answers.

    The shipped packages have the canned answers.
    """
    if configured is not None:
        return configured.absolute()
    own = Path("models.yaml").absolute()
    return own if own.is_file() else library / "models.yaml"


def read_models_file(path: Path) -> ModelsFile:
    try:
        raw = read_data_file(path)
    except PackageError as error:
        raise ModelsFileError(f"{path}: {error.finding.message}") from None
    except OSError as error:
        raise ModelsFileError(f"the models file {path} cannot be read: {error.strerror}") from None
    if not isinstance(raw, Mapping) or not isinstance(raw.get("models"), Mapping):
        raise ModelsFileError(f"{path}: models must be a mapping from alias to provider and model")
    unknown = [str(key) for key in raw if key not in _FILE_KEYS]
    if unknown:  # ignored prices would also disable limits in USD
        raise ModelsFileError(f"{path}: {unknown[0]!r} is not one of {', '.join(_FILE_KEYS)}")
    models = {
        str(alias): _read_model(entry, f"{path}: models.{alias}", path.parent) for alias, entry in raw["models"].items()
    }
    entries = raw.get("prices") or []
    if not isinstance(entries, list):
        raise ModelsFileError(f"{path}: prices must be a list; the first match wins")
    prices = [_read_price(entry, f"{path}: prices[{index}]") for index, entry in enumerate(entries)]
    return ModelsFile(path, models, PriceTable(prices))


def _read_model(entry: Any, place: str, folder: Path) -> ModelSpec:
    provider = entry.get("provider") if isinstance(entry, Mapping) else None
    kind = _SPEC_BY_PROVIDER.get(str(provider))
    if kind is None:
        raise ModelsFileError(f"{place}.provider: {provider!r} is not one of {', '.join(sorted(_SPEC_BY_PROVIDER))}")
    try:
        spec: ModelSpec = kind.model_validate(entry)
    except ValidationError as error:
        raise ModelsFileError(_describe_first_problem(error, place)) from None
    if isinstance(spec, ScriptModel):  # relative to the models file, not to the working directory
        spec = spec.model_copy(update={"file": folder / spec.file})
    return spec


def _read_price(entry: Any, place: str) -> Price:
    try:
        price = PriceEntry.model_validate(entry)
    except ValidationError as error:
        raise ModelsFileError(_describe_first_problem(error, place)) from None
    if not any(fnmatchcase(provider, price.provider) for provider in _SPEC_BY_PROVIDER):
        raise ModelsFileError(
            f"{place}.provider: {price.provider!r} matches none of {', '.join(sorted(_SPEC_BY_PROVIDER))}"
        )
    return Price(**price.model_dump())


def _describe_first_problem(error: ValidationError, place: str) -> str:
    first = error.errors(include_url=False)[0]
    words = next((words for kind, words in PROBLEM_WORDS.items() if first["type"].startswith(kind)), first["msg"])
    return f"{'.'.join([place, *map(str, first['loc'])])}: {words.removeprefix('Value error, ')}"


class PriceEntry(_StrictModel):
    provider: str = "*"
    model: str = "*"
    input: _Amount
    output: _Amount
    cached_input: _Amount | None = None
    cache_write: _Amount | None = None
    reasoning: _Amount | None = None
    since: date | None = Field(default=None, alias="from")
    above_tokens: int = Field(default=0, ge=0, le=1_000_000_000)
