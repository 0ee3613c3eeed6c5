"""A YAML reader from parser events to plain data.

It enforces bounds and notes what YAML drops silently. The composing loaders recurse in C without a limit: a file of
brackets would crash the process.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import yaml

MAX_DEPTH = 100
MAX_NODES = 100_000  # ten times the largest known file; aliases count as their expansion
MAX_CHARACTERS = 10 * 1024 * 1024  # aliases count as their expansion

_TAG = "tag:yaml.org,2002:"
_MERGE = object()
_NO_KEY = object()
_BOOLEANS = yaml.constructor.SafeConstructor.bool_values

# Dates stay text, as in JSON: run documents have no dates, and `2026-02-30` would not load.
_IMPLICIT_RESOLVERS = {
    first: [(tag.removeprefix(_TAG), pattern) for tag, pattern in resolvers if tag != _TAG + "timestamp"]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


@dataclass(frozen=True, slots=True)
class ReaderNote:
    """A remark for the author about how the text was read."""

    code: str
    path: str
    line: int
    message: str


@dataclass(frozen=True, slots=True)
class DataDocument:
    data: Any
    notes: tuple[ReaderNote, ...] = ()


class _YamlValue(NamedTuple):
    """A value with its size.

    `nodes`, `characters` and `depth` count aliases as their expansion.
    """

    value: Any
    nodes: int = 1
    characters: int = 0
    depth: int = 0
    boolean_word: str | None = None  # of a boolean: the word in the file


@dataclass(slots=True)
class _OpenCollection:
    """A collection that the reader is inside of."""

    value: list[Any] | dict[Any, Any]
    anchor: str | None
    nodes: int = 1
    characters: int = 0
    depth: int = 0
    key: Any = _NO_KEY
    merged_mappings: list[Any] = field(default_factory=list)


class _YamlReader:
    def __init__(self) -> None:
        self.root = _OpenCollection([], None)
        self.stack = [self.root]
        self.notes: list[ReaderNote] = []
        self.anchors: dict[str, _YamlValue] = {}
        self.plain_scalars: dict[str, _YamlValue] = {}  # most words of a package are repeated

    def read(self, text: str) -> DataDocument:
        for event in yaml.parse(text, yaml.CSafeLoader):
            if isinstance(event, yaml.ScalarEvent):
                value = self._read_scalar(event)
                if event.anchor:
                    self.anchors[event.anchor] = value
                self._add_value(value, event)
            elif isinstance(event, yaml.CollectionStartEvent):
                self._open_collection(event)
            elif isinstance(event, yaml.CollectionEndEvent):
                self._close_collection(event)
            elif isinstance(event, yaml.AliasEvent):
                self._add_value(self._resolve_alias(event), event)
            elif isinstance(event, yaml.DocumentStartEvent) and self.root.value:
                raise _yaml_error("has a second document; keep one", event)
        return DataDocument(self.root.value[0] if self.root.value else None, tuple(self.notes))

    def _open_collection(self, event: Any) -> None:
        is_mapping = isinstance(event, yaml.MappingStartEvent)
        if event.tag not in (None, "!", f"{_TAG}map" if is_mapping else f"{_TAG}seq"):
            raise _yaml_error(f"the tag {event.tag} is not supported; write plain values", event)
        self.stack.append(_OpenCollection({} if is_mapping else [], event.anchor))
        if len(self.stack) > MAX_DEPTH + 1:
            raise _yaml_error("is nested too deeply", event)

    def _close_collection(self, event: Any) -> None:
        closed = self.stack.pop()
        value = closed.value
        if closed.merged_mappings and isinstance(value, dict):  # the mapping's own keys override merged ones
            value = {
                key: item for mapping in [*reversed(closed.merged_mappings), value] for key, item in mapping.items()
            }
        whole = _YamlValue(value, closed.nodes, closed.characters, closed.depth + 1)
        if closed.anchor:
            self.anchors[closed.anchor] = whole
        self._add_value(whole, event)

    def _resolve_alias(self, event: Any) -> _YamlValue:
        if any(event.anchor == collection.anchor for collection in self.stack):
            raise _yaml_error(f"the alias {event.anchor} refers to a collection that contains it", event)
        if event.anchor not in self.anchors:
            raise _yaml_error(f"the alias {event.anchor} has no anchor above it", event)
        return self.anchors[event.anchor]

    def _add_value(self, value: _YamlValue, event: Any) -> None:
        parent = self.stack[-1]
        parent.nodes += value.nodes
        parent.characters += value.characters
        parent.depth = max(parent.depth, value.depth)
        if len(self.stack) + value.depth > MAX_DEPTH + 1:
            raise _yaml_error("is nested too deeply", event)
        if parent.nodes > MAX_NODES or parent.characters > MAX_CHARACTERS:
            limits = f"{MAX_NODES} values or {MAX_CHARACTERS >> 20} MB"
            raise _yaml_error(f"is too large: more than {limits} with expanded aliases", event)
        if isinstance(parent.value, list):
            parent.value.append(_unmerge(value.value))
        elif parent.key is _NO_KEY:
            parent.key = self._read_key(value, parent, event)
        else:
            self._set_item(parent, parent.value, _unmerge(value.value), event)
            parent.key = _NO_KEY

    def _read_key(self, value: _YamlValue, parent: _OpenCollection, event: Any) -> Any:
        key = value.value
        if isinstance(key, list | dict):
            raise _yaml_error("a key must be plain text; quote text that begins with { or [", event)
        if value.boolean_word is not None:
            key = value.boolean_word
            message = (
                f"the key {key} means {_boolean_word(value.value)} in YAML but is read as text; write it in quotes"
            )
            self._add_note("boolean_key", key, message, event)
        if key is not _MERGE and key in parent.value:
            self._add_note("duplicate_key", key, f"{key} is a duplicate key; the last value is used: remove one", event)
        return key

    def _set_item(self, parent: _OpenCollection, mapping: dict[Any, Any], value: Any, event: Any) -> None:
        if parent.key is not _MERGE:
            mapping[parent.key] = value
            return
        merged = value if isinstance(value, list) else [value]
        if not all(isinstance(item, dict) for item in merged):
            raise _yaml_error("<< requires a mapping, or a list of mappings", event)
        parent.merged_mappings += merged

    def _add_note(self, code: str, key: Any, message: str, event: Any) -> None:
        path = ""
        for collection in self.stack[1:-1]:
            path += f"[{len(collection.value)}]" if isinstance(collection.value, list) else f".{collection.key}"
        self.notes.append(ReaderNote(code, f"{path}.{key}".lstrip("."), event.start_mark.line + 1, message))

    def _read_scalar(self, event: Any) -> _YamlValue:
        if event.tag in (None, "!"):
            if not event.implicit[0]:
                return _YamlValue(event.value, characters=len(event.value))
            known = self.plain_scalars.get(event.value)
            if known is None:
                known = self.plain_scalars[event.value] = _convert_scalar(_implicit_kind(event.value), event)
            return known
        kind = event.tag.removeprefix(_TAG)
        if kind not in _TYPES or kind == "merge":
            raise _yaml_error(f"the tag {event.tag} is not supported; write plain values", event)
        return _convert_scalar(kind, event)


def read_yaml(text: str) -> DataDocument:
    """Reads one document. Raises yaml.YAMLError with a mark if it cannot be read."""
    return _YamlReader().read(text)


def _implicit_kind(word: str) -> str:
    return next((kind for kind, pattern in _IMPLICIT_RESOLVERS.get(word[:1], ()) if pattern.match(word)), "str")


def _convert_scalar(kind: str, event: Any) -> _YamlValue:
    word = event.value
    try:
        value = _TYPES[kind](word)
    except (ValueError, KeyError, IndexError):  # `!!int x`, `!!bool x`, numbers of 5,000 digits
        raise _yaml_error(f"{word[:40]!r} cannot be read as {kind}", event) from None
    boolean_word = word if isinstance(value, bool) and event.implicit[0] else None
    return _YamlValue(value, characters=len(word), boolean_word=boolean_word)


def _number_constructor(kind: str) -> Callable[[str], Any]:
    constructor = yaml.constructor.SafeConstructor()
    construct = getattr(constructor, f"construct_yaml_{kind}")
    return lambda word: construct(yaml.ScalarNode(f"{_TAG}{kind}", word))


_TYPES: Mapping[str, Callable[[str], Any]] = {
    "str": str,
    "value": str,  # a lone `=`
    "null": lambda _: None,
    "bool": lambda word: _BOOLEANS[word.lower()],
    "int": _number_constructor("int"),
    "float": _number_constructor("float"),
    "merge": lambda _: _MERGE,
}


def _unmerge(value: Any) -> Any:
    """Restores the text `<<`, which means a merge only as a key."""
    return "<<" if value is _MERGE else value


def _boolean_word(value: bool) -> str:
    return "true" if value else "false"


def _yaml_error(message: str, event: Any) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=message, problem_mark=event.start_mark)
