"""The script provider: answers from a file, without a server."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ag2.config import LLMClient, ModelConfig, ModelProvider
from ag2.context import ConversationContext
from ag2.events import BaseEvent, ModelMessage, ModelResponse, ToolCallEvent, ToolCallsEvent, Usage
from ag2.files.protocol import FilesClient
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from accounting.token_normalization import NORMALIZERS
from workflows.chat.chat_errors import ModelError, PackageDefect
from workflows.chat.chat_state import live_turn
from workflows.chat.providers.provider import OpenModel, Provider
from workflows.chat.providers.provider_errors import is_transient
from workflows.models_file import ScriptModel
from workflows.package.files.data_files import read_data_file
from workflows.package.findings import PackageError

ScriptAnswer = Mapping[str, Any]
_KNOWN_KEYS = frozenset({"answers", "default", "schema_version", "version", "$schema"})


def open_model(spec: ScriptModel, key: str | None) -> OpenModel:
    del key
    return OpenModel(ScriptConfig(read_script(spec.file)), _close_nothing)


async def _close_nothing() -> None:
    return None


def explain(error: Exception) -> ModelError | None:
    """Explains nothing: a script's own errors are `ModelError`s already."""
    del error
    return None


PROVIDER = Provider(open_model, explain, NORMALIZERS["script"], is_paid=False)


@dataclass(frozen=True, slots=True)
class Script:
    source: str
    answers: Mapping[str, Sequence[ScriptAnswer]]
    default: ScriptAnswer | None

    def next_answer(self, agent: str, *, answered: int, failed: int) -> ScriptAnswer:
        """Returns the first unused entry.

        An answer uses up an entry; a failed call uses up an entry that fails."""
        entries = self.answers.get(agent, ())
        for entry in entries:
            fails = _is_failure(entry)
            if (failed if fails else answered) == 0:
                return entry
            answered, failed = (answered, failed - 1) if fails else (answered - 1, failed)
        if self.default is None:
            message = f"{self.source} has {len(entries)} answers for {agent} and no default, but one more was needed"
            raise ModelError(message, transient=False)
        return self.default


def _is_failure(entry: ScriptAnswer) -> bool:
    return entry.get("error") is not None or _is_empty(entry)


def _is_empty(entry: ScriptAnswer) -> bool:
    """Checks for an entry without text and calls: a failure, so the repeat skips it."""
    return not str(entry.get("text") or "").strip() and not entry.get("tool_calls")


def read_script(path: Path) -> Script:
    try:
        raw = read_data_file(path)
    except PackageError as error:
        raise PackageDefect(str(error.finding)) from None
    except OSError as error:
        raise PackageDefect(f"the answers file {path} cannot be read: {error.strerror}") from None
    answers = raw.get("answers", {}) if isinstance(raw, Mapping) else None
    if not isinstance(answers, Mapping) or not all(isinstance(entries, list) for entries in answers.values()):
        raise PackageDefect(f"{path}: write answers: as a mapping from agent to a list of entries")
    unknown = [str(key) for key in raw if key not in _KNOWN_KEYS]
    if unknown:
        raise PackageDefect(f"{path}: {', '.join(unknown)} is not a known key; write answers: and default:")
    checked = {
        agent: [_check_entry(entry, f"{path}: answers.{agent}[{index}]") for index, entry in enumerate(entries)]
        for agent, entries in answers.items()
    }
    default = raw.get("default")
    return Script(str(path.name), checked, None if default is None else _check_entry(default, f"{path}: default"))


class _ScriptModel(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class _ScriptCall(_ScriptModel):
    name: str
    arguments: dict[str, Any] = {}


class _ScriptUsage(_ScriptModel):
    input: int = Field(default=0, ge=0)
    cached_input: int = Field(default=0, ge=0)
    cache_write: int = Field(default=0, ge=0)
    output: int = Field(default=0, ge=0)
    reasoning: int = Field(default=0, ge=0)


class _Error(_ScriptModel):
    status: int = 500
    retry_after_s: float | None = Field(default=None, ge=0)


class _ScriptEntry(_ScriptModel):
    text: str | int | float | None = None
    tool_calls: list[_ScriptCall] = []
    usage: _ScriptUsage | None = None
    delay_s: float = Field(default=0, ge=0)
    error: _Error | int | None = None

    @field_validator("text", mode="before")
    @classmethod
    def _is_text(cls, raw: Any) -> Any:
        if isinstance(raw, bool):
            raise ValueError("is true or false, as YAML reads yes, no, on and off; put it in quotes")
        return raw


_PART_MODELS: Mapping[str, type[_ScriptModel]] = {"tool_calls": _ScriptCall, "usage": _ScriptUsage, "error": _Error}
_ERROR_TEXTS = {
    "extra_forbidden": "is not a known field",
    "model_type": "must be a mapping",
    "dict_type": "must be a mapping",
    "list_type": "must be a list",
}


def _check_entry(entry: Any, location: str) -> ScriptAnswer:
    try:
        valid = _ScriptEntry.model_validate(entry)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        steps = [step for step in first["loc"] if step not in (_Error.__name__, "int")]  # the two forms of `error`
        where = location + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
        fields = _PART_MODELS.get(str(steps[0]) if steps else "", _ScriptEntry).model_fields
        message = _ERROR_TEXTS.get(first["type"], first["msg"])
        raise PackageDefect(f"{where}: {message}; its fields are {', '.join(fields)}") from None
    if all(entry.get(name) is None for name in ("text", "tool_calls", "error")):
        raise PackageDefect(f"{location} is empty; give text, tool_calls or error")
    return valid.model_dump(exclude_unset=True)


class ScriptClient(LLMClient):
    def __init__(self, script: Script) -> None:
        self._script = script

    async def __call__(
        self, messages: Sequence[BaseEvent], context: ConversationContext, **request: Any
    ) -> ModelResponse:
        del messages, request  # the script decides what comes next
        live = live_turn()
        used = live.chat.counters
        answered = used.answered.get(live.asker, 0) + live.answer_counts[live.asker]
        entry = self._script.next_answer(live.asker, answered=answered, failed=used.failed.get(live.asker, 0))
        await asyncio.sleep(float(entry.get("delay_s", 0)))
        _raise_error(entry.get("error"))
        if _is_empty(entry):
            raise ModelError(f"the script gives {live.asker} an empty answer in turn {live.number}", transient=True)
        message = None
        if entry.get("text") is not None:
            message = ModelMessage(str(entry["text"]))
            await context.send(message)
        return ModelResponse(
            message=message,
            tool_calls=ToolCallsEvent(_to_tool_calls(entry, answered)),
            usage=_to_usage(entry.get("usage")),
            model="script",
            provider="script",
            finish_reason="stop",
        )


def _raise_error(error: Any) -> None:
    if error is None:
        return
    detail = error if isinstance(error, Mapping) else {"status": error}
    status = int(detail.get("status", 500))
    raise ModelError(
        f"the script answers with status {status}",
        transient=is_transient(status),
        retry_after_s=detail.get("retry_after_s"),
    )


def _to_tool_calls(entry: ScriptAnswer, answer_number: int) -> list[ToolCallEvent]:
    return [
        ToolCallEvent(
            id=f"call_{answer_number}_{index}", name=str(call["name"]), arguments=json.dumps(call.get("arguments", {}))
        )
        for index, call in enumerate(entry.get("tool_calls", ()))
    ]


def _to_usage(raw: Mapping[str, int] | None) -> Usage:
    """Reads usage under normalized names: input includes cached, output reasoning."""
    if not raw:
        return Usage()
    return Usage(
        prompt_tokens=raw.get("input", 0),
        completion_tokens=raw.get("output", 0),
        cache_read_input_tokens=raw.get("cached_input"),
        cache_creation_input_tokens=raw.get("cache_write"),
        thinking_tokens=raw.get("reasoning"),
    )


class ScriptConfig(ModelConfig):
    def __init__(self, script: Script) -> None:
        self._client = ScriptClient(script)

    @property
    def provider(self) -> ModelProvider:
        return ModelProvider.OPENAI  # AG2's list is closed; the meter records `script`

    @property
    def model(self) -> str:
        return "script"

    def copy(self) -> "ScriptConfig":
        return self

    def create(self) -> ScriptClient:
        return self._client

    def create_files_client(self) -> FilesClient[Any]:
        raise PackageDefect("the script provider keeps no files")
