"""The inputs of an orchestrator, each described like a JSON Schema."""

from collections.abc import Mapping
from typing import Any, get_args

from workflows.context.values.value_types import ValueType, is_of_type, is_one_of, parse_type_name
from workflows.package.readers.section import Section


def read_inputs(section: Section) -> dict[str, Mapping[str, Any]]:
    """Returns each spec with normalized `type` and boolean `required`."""
    return _read_specs(section, "inputs")


def _read_specs(section: Section, field: str) -> dict[str, Mapping[str, Any]]:
    specs: dict[str, Mapping[str, Any]] = {}
    entries: Mapping[Any, Any] = section.mapping(field)
    for name, spec in entries.items():
        if not isinstance(name, str):
            section.error("wrong_type", field, "has a name that is not text; write it in quotes")
        elif spec is None:
            specs[name] = {}
        elif isinstance(spec, Mapping):
            specs[name] = _read_spec(section.child(spec, f"{field}.{name}"))
        else:
            section.error("wrong_type", f"{field}.{name}", "must be a mapping such as {type: string, required: true}")
    return specs


def _read_spec(section: Section) -> Mapping[str, Any]:
    kind = _read_type_name(section)
    enum = section.sequence("enum")
    default = section.get("default")
    if default is not None and kind is not None and not is_of_type(default, kind):
        section.warning("wrong_default", "default", f"is not of type {kind}; change the default or the type")
    elif default is not None and enum and not is_one_of(default, enum):
        section.warning("wrong_default", "default", "is not one of the values in `enum`; add it there or change it")
    for field in ("description", "format", "title"):
        section.text(field)
    spec = {**section.body, "required": _read_required(section)}
    if kind is not None:
        spec["type"] = kind
    if section.get("properties") is not None:
        spec["properties"] = _read_specs(section, "properties")
    _check_items(section)
    section.report_unread("is not checked for an input; remove it")
    return spec


def _read_type_name(section: Section) -> ValueType | None:
    """Returns the type; None if it is absent or unknown."""
    word = section.text("type")
    if word is None:
        return None
    kind = parse_type_name(word)
    if kind is None:
        known = ", ".join(sorted(get_args(ValueType)))
        section.error("unknown_type", "type", f"{word[:100]} is not a known type; use one of {known}")
    return kind


def _check_items(section: Section) -> None:
    """Reports misspelt types inside `items`.

    `items` itself is reported as not checked.
    """
    items = section.body.get("items")
    if isinstance(items, Mapping):
        inner = section.child(items, "items")
        _read_type_name(inner)
        for name, spec in inner.mapping("properties").items():
            if isinstance(spec, Mapping):
                _read_type_name(inner.child(spec, f"properties.{name}"))
        _check_items(inner)


def _read_required(section: Section) -> bool:
    """Reads `required`.

    A list of required properties, as in JSON Schema, is reported and ignored.
    """
    if isinstance(section.get("required"), list):
        section.report_ignored("required", "is not checked inside an object; write required: true at the input itself")
        return False
    return section.flag("required")
