"""The question of a waiting run: bounded, as stored and as shown.

A tool's question is bound to one call: its id is made of the run, the turn, the call's position, the function, the
arguments, the tool and the payload. The same call asks under the same id when it is repeated; no other call does.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from workflows.context.values.storable_values import plain_copy, storable_text
from workflows.context.values.value_sizes import estimate_bytes
from workflows.context.values.value_text import shorten, to_text
from workflows.package.normal_form.package_model import Package
from workflows.package.normal_form.variable_sources import StateSource

MAX_TEXT_CHARACTERS = 4_000
MAX_NAME_CHARACTERS = 200
MAX_PAYLOAD_BYTES = 16_000  # in bytes; a larger payload is cut to its beginning, as text
MAX_CHOICES = 20
CHOICE_KEY = "choice"  # the answer's key for a choice, where the package waits for no key or for several


@dataclass(frozen=True, slots=True)
class Question:
    """A question of a tool or about a message.

    `tool` is the name it asks with, `function` the function that asks. Variables of the package wait for `keys`; with
    `choices`, the first key takes the choice."""

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
        document = {**asdict(self), "text": shorten_storable(self.text, MAX_TEXT_CHARACTERS), "keys": list(self.keys)}
        document |= {"choices": list(self.choices), "digests": dict(self.digests)}
        present = {name: value for name, value in document.items() if value not in (None, [], {})}
        return {**present, "arguments": self.arguments} if self.kind == "tool" else present


@dataclass(frozen=True, slots=True)
class QuestionContent:
    """The content of one question as a person sees it: without hidden values.

    The digests are those of the whole content."""

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
        plain, plain_payload = plain_copy(dict(arguments), redact), plain_copy(payload, redact)
        title = None if title is None else shorten_storable(redact(title), MAX_NAME_CHARACTERS)
        choices = tuple(shorten_storable(redact(choice), MAX_NAME_CHARACTERS) for choice in choices)
        digests = {"arguments": digest(plain), "payload": digest([plain_payload, title, list(choices)])}
        return QuestionContent(shorten_payload(plain), shorten_payload(plain_payload), title, choices, digests)


def shorten_storable(text: str, limit: int) -> str:
    return storable_text(shorten(text, limit, f"… ({len(text)} characters)"))


def shorten_payload(plain: Any) -> Any:
    is_small = estimate_bytes(plain, max_bytes=MAX_PAYLOAD_BYTES) <= MAX_PAYLOAD_BYTES
    return plain if is_small else shorten_storable(to_text(plain), MAX_PAYLOAD_BYTES)


def digest(plain: Any) -> str:
    """Digests data, independently of the order of keys."""
    written = json.dumps(plain, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(written.encode("utf-8", "replace")).hexdigest()[:32]


def make_question_id(*parts: Any) -> str:
    return f"q_{digest(list(parts))[:20]}"


def find_awaited_keys(package: Package, *names: str) -> tuple[str, ...]:
    """Returns the keys that variables take from an answer under one of these names."""
    watched = (
        transition.trigger
        for variable in package.variables.values()
        if isinstance(variable.source, StateSource)
        for transition in variable.source.transitions
    )
    keys = (getattr(trigger, "response_key", None) for trigger in watched if getattr(trigger, "tool", None) in names)
    return tuple(dict.fromkeys(key for key in keys if key is not None))


def keys_with_choice(keys: Sequence[str]) -> tuple[str, ...]:
    """Puts the key that the choice answers first."""
    return tuple(keys) if len(keys) == 1 else (CHOICE_KEY, *(key for key in keys if key != CHOICE_KEY))


def matches_choices(question: Question, answer: Mapping[str, Any], redact: Callable[[Any], Any]) -> bool:
    """Checks the answer's choice. True where the question has no choices."""
    chosen = answer.get(question.keys[0]) if question.choices else None
    return not question.choices or (
        isinstance(chosen, str) and shorten_storable(redact(chosen), MAX_NAME_CHARACTERS) in question.choices
    )
