"""Reads the type of a variable: six, under the names that authors use."""

from collections.abc import Mapping
from typing import Any, get_args

from workflows.context.fitting import coerce_or_keep
from workflows.context.value_types import ValueType, parse_type_name
from workflows.package.reading.section import Section

_TYPE_BY_PYTHON: Mapping[type, ValueType] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    dict: "object",
    list: "array",
}


def read_type(section: Section, default: Any) -> tuple[ValueType, tuple[Any, ...]]:
    """The declared type, else that of the default; and the values that enum allows, in that type."""
    raw = section.get("type")
    if isinstance(raw, list):  # as JSON Schema says "or nothing"
        raw = next((each for each in raw if each != "null"), None)
    declared = _TYPE_BY_PYTHON.get(type(default), "string")
    if raw not in (None, "null"):
        declared = parse_type_name(raw) or "string"
        if parse_type_name(raw) is None:
            section.error("wrong_value", "type", f"{str(raw)[:100]} is not one of {', '.join(get_args(ValueType))}")
    return declared, tuple(coerce_or_keep(each, declared) for each in section.sequence("enum", "allowed_values"))
