"""The type grammar of structured outputs, read into normal form."""

import difflib
import math
import re
from collections.abc import Mapping
from typing import Any

from workflows.package.normal_form.structured_outputs import (
    InlineModel,
    ListOf,
    LiteralOf,
    ModelRef,
    Null,
    OutputField,
    OutputType,
    Scalar,
    UnionOf,
)
from workflows.package.readers.outputs.named_entries import read_named_entries, read_required_names
from workflows.package.readers.section import Section

MAX_TYPE_DEPTH = 50
MAX_TYPES = 100_000
MAX_SUGGESTIONS = 20  # searching similar names is slow

ANY_TYPE = Scalar("any")
_SCALARS = {
    **dict.fromkeys(("str", "string", "text"), Scalar("str")),
    **dict.fromkeys(("int", "integer"), Scalar("int")),
    **dict.fromkeys(("bool", "boolean"), Scalar("bool")),
    **dict.fromkeys(("float", "number"), Scalar("float")),
    **dict.fromkeys(("dict", "object"), Scalar("dict")),
    "any": ANY_TYPE,
}
_NULLS = {"null", "none"}
_SHAPES = {"list": "list", "array": "list", "literal": "literal", "union": "union", "model": "model"}
_PART_FIELDS = ("items", "values", "variants", "fields", "required", "allowed_values", "enum")
_SHAPE_BY_PART = {"fields": "model", "variants": "union", "items": "list", "values": "literal"}
_GENERIC = re.compile(r"(list|optional|dict)\[(.*)\]", re.IGNORECASE | re.DOTALL)

# The shapes whose parts may be beside the field that names them.
_ALL_SHAPES = frozenset(_SHAPES.values())
_VARIANT_SHAPES = frozenset({"list", "literal"})
_ITEM_SHAPES = frozenset({"literal"})


class OutputTypeReader:
    """Reads types, which may refer to `models`.

    An invalid type is reported and becomes `any`.
    """

    def __init__(self, models: frozenset[str]) -> None:
        self._models = models
        self._types_left = MAX_TYPES
        self._suggestions_left = MAX_SUGGESTIONS

    def read_type(self, section: Section, depth: int = 0) -> OutputType:
        raw = section.get("type")
        if isinstance(raw, Mapping):
            return self._read_child(section, "type", raw, depth)
        if raw is None:
            raw = next((shape for part, shape in _SHAPE_BY_PART.items() if section.body.get(part) is not None), None)
        if raw is None:
            section.error(
                "missing_field", "type", f"is required; write one of {_known_types()}, or the name of a model"
            )
            return ANY_TYPE
        kind = self._read_named(section, "type", raw, depth, _ALL_SHAPES)
        is_literal = isinstance(raw, str) and "literal" in raw.casefold()  # its values are read already
        return kind if is_literal else _restrict_to_values(section, kind)

    def suggest_name(self, name: str, known: frozenset[str]) -> str:
        """Returns similar names as a question for the end of a message, or an empty text."""
        similar: list[str] = []
        if self._suggestions_left > 0:
            self._suggestions_left -= 1
            similar = difflib.get_close_matches(
                name[:100], [candidate[:100] for candidate in sorted(known)[:1000]], n=3
            )
        return f"did you mean {' or '.join(similar)}?" if similar else ""

    def _read_named(self, section: Section, field: str, raw: Any, depth: int, shapes: frozenset[str]) -> OutputType:
        """Reads the type that `raw` names.

        `shapes`: those whose parts may be beside the name.
        """
        if not self._can_read(section, field, depth):
            return ANY_TYPE
        if not isinstance(raw, str):
            section.error("wrong_type", field, f"must be one of {_known_types()}, or the name of a model")
            return ANY_TYPE
        name = raw.strip()
        word = name.casefold()
        if name in self._models:
            return ModelRef(name)
        if word in _SCALARS:
            return _SCALARS[word]
        if word in _NULLS:
            return Null()
        if word in _SHAPES:
            return self._read_shaped(section, field, _SHAPES[word], depth, shapes)
        return self._read_composed(section, field, name, depth, shapes)

    def _read_composed(self, section: Section, field: str, name: str, depth: int, shapes: frozenset[str]) -> OutputType:
        generic = _GENERIC.fullmatch(name)
        if name.casefold().startswith("optional_"):
            return make_nullable(self._read_named(section, field, name[len("optional_") :], depth + 1, shapes))
        if generic is None:
            known = self._models | _SCALARS.keys() | _SHAPES.keys()
            hint = self.suggest_name(name, known) or f"write one of {_known_types()}, or the name of a model"
            section.error("unknown_type", field, f"{name[:100]} is neither a type nor a model of this file; {hint}")
            return ANY_TYPE
        outer, inner = generic[1].casefold(), generic[2]
        if outer == "dict":
            return Scalar("dict")
        kind = self._read_named(section, field, inner, depth + 1, _ITEM_SHAPES)
        return ListOf(kind) if outer == "list" else make_nullable(kind)

    def _read_shaped(self, section: Section, field: str, shape: str, depth: int, shapes: frozenset[str]) -> OutputType:
        if shape == "list":
            return ListOf(self._read_items(section, depth) if shape in shapes else ANY_TYPE)
        if shape not in shapes:
            section.error("wrong_value", field, f"{shape} requires its parts: write a mapping with type: {shape}")
            return ANY_TYPE
        if shape == "literal":
            return _read_literal(section, "values", "allowed_values", "enum")
        return self._read_union(section, depth) if shape == "union" else self.read_model(section, depth)

    def _read_items(self, section: Section, depth: int) -> OutputType:
        raw = section.get("items")
        if isinstance(raw, Mapping):
            return self._read_child(section, "items", raw, depth)
        return ANY_TYPE if raw is None else self._read_named(section, "items", raw, depth + 1, _ITEM_SHAPES)

    def _read_union(self, section: Section, depth: int) -> OutputType:
        raw = section.sequence("variants")
        if not raw:
            section.error("missing_field", "variants", "is required: a list with at least one type")
            return ANY_TYPE
        variants: list[OutputType] = []
        for index, variant in enumerate(raw):
            field = f"variants[{index}]"
            if variant is None:
                variants.append(Null())
            elif isinstance(variant, Mapping):
                variants.append(self._read_child(section, field, variant, depth))
            else:
                variants.append(self._read_named(section, field, variant, depth + 1, _VARIANT_SHAPES))
        return variants[0] if len(variants) == 1 else UnionOf(tuple(variants))

    def _read_child(self, section: Section, field: str, raw: Mapping[str, Any], depth: int) -> OutputType:
        if not self._can_read(section, field, depth + 1):
            return ANY_TYPE
        child = section.child(raw, field)
        kind = self.read_type(child, depth + 1)
        child.get("description", "NOTE")
        child.report_unread()
        return kind

    def read_model(self, section: Section, depth: int) -> InlineModel:
        if section.get("fields") is None and "fields" not in section.body:
            section.error("missing_field", "fields", "is required: a mapping from field names to types")
        entries = dict(read_named_entries(section, "fields"))
        required = read_required_names(section, entries)
        return InlineModel(
            {name: self._read_field(entry, name, required, depth + 1) for name, entry in entries.items()}
        )

    def _read_field(
        self, section: Section, name: str, required_names: frozenset[str] | None, depth: int
    ) -> OutputField:
        kind = self.read_type(section, depth)
        default = section.get("default")
        raw = section.get("required")
        if raw is not None and not isinstance(raw, list):
            required = section.flag("required")
        elif required_names is not None:
            required = name in required_names
        else:
            required = "default" not in section.body and not self._is_optional(section.body.get("type"))
        description = section.text("description") or ""
        section.get("name", "NOTE")
        section.report_unread()
        if not required and default is None:
            kind = make_nullable(kind)
        return OutputField(kind, description, required, default)

    def _is_optional(self, raw: Any) -> bool:
        return isinstance(raw, str) and raw not in self._models and raw.strip().casefold().startswith("optional")

    def _can_read(self, section: Section, field: str, depth: int) -> bool:
        self._types_left -= 1
        if self._types_left == 0:
            section.error("too_many_types", field, f"the file describes more than {MAX_TYPES} types; make it smaller")
        if depth > MAX_TYPE_DEPTH and self._types_left > 0:
            message = f"is nested more than {MAX_TYPE_DEPTH} types deep; move inner types into models of their own"
            section.error("nested_too_deeply", field, message)
        may_read = self._types_left > 0 and depth <= MAX_TYPE_DEPTH
        if not may_read:
            section.get(*_PART_FIELDS)  # marked as read: the findings above report them once
        return may_read


def make_nullable(kind: OutputType) -> OutputType:
    if kind in (ANY_TYPE, Null()) or (isinstance(kind, LiteralOf) and None in kind.values):
        return kind
    if isinstance(kind, UnionOf):
        return kind if Null() in kind.variants else UnionOf((*kind.variants, Null()))
    return UnionOf((kind, Null()))


def _restrict_to_values(section: Section, kind: OutputType) -> OutputType:
    """Limits a type to the values in `allowed_values` or `enum`."""
    fields = ("allowed_values", "enum", "values") if isinstance(kind, Scalar) else ("allowed_values", "enum")
    used_fields = [field for field in fields if section.body.get(field) is not None]
    if not used_fields or isinstance(kind, LiteralOf):
        return kind
    values = _read_literal(section, *fields)
    limited = _limit_type(kind, values)
    if limited == kind:
        section.report_ignored(
            used_fields[0], "only text and numbers can be limited to values; remove it, or change the type"
        )
    return limited


def _limit_type(kind: OutputType, values: OutputType) -> OutputType:
    if isinstance(kind, Scalar):
        return values
    if isinstance(kind, ListOf):
        return ListOf(_limit_type(kind.items, values))
    if isinstance(kind, UnionOf):
        variants = [_limit_type(variant, values) for variant in kind.variants]
        first = next((index for index, variant in enumerate(variants) if variant is values), None)
        # The values replace all scalars together, as in [str, int].
        return UnionOf(
            tuple(variant for index, variant in enumerate(variants) if index == first or variant is not values)
        )
    return kind


def _read_literal(section: Section, *names: str) -> OutputType:
    values = section.sequence(*names)
    field = next((name for name in names if section.body.get(name) is not None), names[0])
    if not values:
        section.error("missing_field", field, "is required: a list with at least one value")
        return ANY_TYPE
    for value in values:
        if value is not None and not isinstance(value, str | int) and not _is_number(value):
            message = "may have text, numbers, true, false and null; write other values in quotes"
            section.error("wrong_value", field, message)
            return ANY_TYPE
    return LiteralOf(tuple(values))


def _is_number(value: Any) -> bool:
    return isinstance(value, float) and math.isfinite(value)


def _known_types() -> str:
    return "str, int, float, bool, dict, any, list, optional_<type>, literal, union, model"
