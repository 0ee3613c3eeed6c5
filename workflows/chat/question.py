"""The question: what a run that waits for a person asks, bounded, as its record and a user interface show it."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from workflows.context.rendering import as_text
from workflows.context.storable_values import plain_copy, storable, weight_of
from workflows.package.models import Package
from workflows.package.sources import StateSource

MAX_TEXT = 4_000
MAX_NAME = 200
MAX_PAYLOAD = 16_000  # bytes; of a larger one its beginning, as text
MAX_ALSO = 20


@dataclass(frozen=True, slots=True)
class Question:
    """Of a tool (`tool` is what it asks with, `function` the function that asks), or for a message. `keys` are those
    that variables of the package wait for, `also` other tools of the same turn that wait."""

    kind: Literal["tool", "message"]
    agent: str | None
    turn: int
    text: str
    tool: str | None = None
    function: str | None = None
    payload: Any = None
    keys: tuple[str, ...] = ()
    also: tuple[str, ...] = ()

    def with_also(self, tool: str) -> "Question":
        if tool in (self.tool, self.function, *self.also) or len(self.also) == MAX_ALSO:
            return self
        return replace(self, also=(*self.also, tool))

    def as_document(self) -> Mapping[str, Any]:
        written = {**asdict(self), "text": cut(self.text, MAX_TEXT), "keys": list(self.keys), "also": list(self.also)}
        return {name: value for name, value in written.items() if value not in (None, [])}


def cut(text: str, most: int) -> str:
    return storable(text if len(text) <= most else f"{text[:most]}… ({len(text)} characters)")


def shown_payload(payload: Any, show: Callable[[Any], Any]) -> Any:
    """`show` hides what must not be seen; it sees the whole before anything is cut off."""
    plain = plain_copy(payload, show)
    return plain if weight_of(plain) <= MAX_PAYLOAD else cut(as_text(plain), MAX_PAYLOAD)


def awaited_keys(package: Package, *names: str) -> tuple[str, ...]:
    """What variables of the package take from an answer under one of these names."""
    watched = (
        each.trigger
        for variable in package.variables.values()
        if isinstance(variable.source, StateSource)
        for each in variable.source.transitions
    )
    keys = (getattr(trigger, "response_key", None) for trigger in watched if getattr(trigger, "tool", None) in names)
    return tuple(dict.fromkeys(key for key in keys if key is not None))
