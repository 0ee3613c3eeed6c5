"""The question: what a run that waits for a person asks, bounded, as its record and a user interface show it.

A question of a tool is bound to one call: its id is made of the run, the turn, the call's position, the function, the
arguments, the tool and the payload. The same call asks under the same id when it is made again; no other call does.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from workflows.context.values.storable_values import plain_copy, storable_text
from workflows.context.values.value_sizes import estimate_bytes
from workflows.context.values.value_text import to_text
from workflows.package.normal_form.package_model import Package
from workflows.package.normal_form.variable_sources import StateSource

MAX_TEXT_CHARACTERS = 4_000
MAX_NAME_CHARACTERS = 200
MAX_PAYLOAD_BYTES = 16_000  # bytes; of a larger one its beginning, as text
MAX_CHOICES = 20
CHOICE_KEY = "choice"  # what a choice answers, where the package waits for no key or for several


@dataclass(frozen=True, slots=True)
class Question:
    """Of a tool (`tool` is what it asks with, `function` the function that asks), or for a message. `keys` are those
    that variables of the package wait for; with `choices`, the first is the one that the choice answers."""

    kind: Literal["tool", "message"]
    agent: str | None
    turn: int
    text: str
    id: str
    tool: str | None = None
    function: str | None = None
    arguments: Any = None
    payload: Any = None
    title: str | None = None
    choices: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    position: str | None = None
    digests: Mapping[str, str] = field(default_factory=dict)

    def as_document(self) -> dict[str, Any]:
        written = {**asdict(self), "text": shorten(self.text, MAX_TEXT_CHARACTERS), "keys": list(self.keys)}
        written |= {"choices": list(self.choices), "digests": dict(self.digests)}
        kept = {name: value for name, value in written.items() if value not in (None, [], {})}
        return {**kept, "arguments": self.arguments} if self.kind == "tool" else kept


@dataclass(frozen=True, slots=True)
class QuestionContent:
    """What a person is shown of one ask: hidden values are taken out, and the digests are those of the whole."""

    arguments: Any
    payload: Any
    title: str | None
    choices: tuple[str, ...]
    digests: Mapping[str, str]

    @staticmethod
    def redacted(
        arguments: Mapping[str, Any],
        payload: Any,
        *,
        title: str | None,
        choices: Sequence[str],
        redact: Callable[[Any], Any],
    ) -> "QuestionContent":
        plain, asked = plain_copy(dict(arguments), redact), plain_copy(payload, redact)
        title = None if title is None else shorten(redact(title), MAX_NAME_CHARACTERS)
        choices = tuple(shorten(redact(choice), MAX_NAME_CHARACTERS) for choice in choices)
        digests = {"arguments": digest(plain), "payload": digest([asked, title, list(choices)])}
        return QuestionContent(shorten_payload(plain), shorten_payload(asked), title, choices, digests)


def shorten(text: str, limit: int) -> str:
    return storable_text(text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)")


def shorten_payload(plain: Any) -> Any:
    is_small = estimate_bytes(plain, max_bytes=MAX_PAYLOAD_BYTES) <= MAX_PAYLOAD_BYTES
    return plain if is_small else shorten(to_text(plain), MAX_PAYLOAD_BYTES)


def digest(plain: Any) -> str:
    """The same for the same data, however its keys are ordered."""
    written = json.dumps(plain, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(written.encode("utf-8", "replace")).hexdigest()[:32]


def make_question_id(*parts: Any) -> str:
    return f"q_{digest(list(parts))[:20]}"


def find_awaited_keys(package: Package, *names: str) -> tuple[str, ...]:
    """What variables of the package take from an answer under one of these names."""
    watched = (
        each.trigger
        for variable in package.variables.values()
        if isinstance(variable.source, StateSource)
        for each in variable.source.transitions
    )
    keys = (getattr(trigger, "response_key", None) for trigger in watched if getattr(trigger, "tool", None) in names)
    return tuple(dict.fromkeys(key for key in keys if key is not None))


def keys_with_choice(keys: Sequence[str]) -> tuple[str, ...]:
    """The key that the choice answers comes first."""
    return tuple(keys) if len(keys) == 1 else (CHOICE_KEY, *(key for key in keys if key != CHOICE_KEY))


def matches_choices(question: Question, answer: Mapping[str, Any], redact: Callable[[Any], Any]) -> bool:
    """True where the answer has one of the `choices` under its key, or the question has none."""
    chosen = answer.get(question.keys[0]) if question.choices else None
    return not question.choices or (
        isinstance(chosen, str) and shorten(redact(chosen), MAX_NAME_CHARACTERS) in question.choices
    )
