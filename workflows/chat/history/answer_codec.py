"""The codec of model answers: returned and streamed events as text.

Any later worker can read the text. The classes are a closed list: AG2's own reader imports any name in a text, so each
name is checked before.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

from ag2.events import BaseEvent, ModelResponse
from ag2.events._serialization import deserialize_value, serialize_value

from workflows.chat.chat_errors import ChatError
from workflows.chat.history.checkpoint import CheckpointError
from workflows.context.values.storable_values import storable_text

VERSION = 1
_CLASS_KEYS = ("__event__", "__enum__", "__dataclass__", "__pydantic__")
# Modules of AG2's events and of the provider libraries whose objects these events carry.
_ALLOWED_MODULES = (
    *("ag2.events.", "ag2.config.openai.events.", "ag2.config.anthropic.events.", "ag2.config.gemini.events."),
    *("ag2.config.xai.events.", "openai.types.", "anthropic.types.", "google.genai.types."),
)


class AnswerCodecError(ChatError):
    """An answer cannot be written; the text names the class."""


def encode_answer(events: Sequence[BaseEvent], response: ModelResponse, redact: Callable[[Any], Any]) -> str:
    """Encodes an answer, with hidden values removed by `redact`.

    AnswerCodecError when the answer holds an object of a class that is not on the list."""
    written = {"version": VERSION, "sent": serialize_value(list(events)), "response": serialize_value(response)}
    _check_class_names(written)
    try:
        return storable_text(json.dumps(redact(written), ensure_ascii=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise AnswerCodecError(f"the model's answer cannot be written: {error}") from None


def decode_answer(text: str) -> tuple[Sequence[BaseEvent], ModelResponse]:
    """Decodes an answer. CheckpointError when a newer version wrote it."""
    written = json.loads(text)
    if written.get("version") != VERSION:
        raise CheckpointError(
            f"a recorded model answer has version {written.get('version')!r} and this worker knows {VERSION};"
            " let a newer worker resume it"
        )
    _check_class_names(written)
    return deserialize_value(written["sent"]), cast(ModelResponse, deserialize_value(written["response"]))


def _check_class_names(value: Any) -> None:
    for name in _class_names(value):
        if not name.startswith(_ALLOWED_MODULES):
            raise AnswerCodecError(f"a model's answer holds a {name}, which is not an allowed class")


def _class_names(value: Any) -> Iterable[str]:
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            yield from (str(item[name]) for name in _CLASS_KEYS if name in item)
            pending.extend(item.values())
        elif isinstance(item, list):
            pending.extend(item)
