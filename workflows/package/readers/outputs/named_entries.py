"""Entries with a name: the mappings and lists in which authors write models and their fields."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from workflows.package.readers.section import Section


def read_named_entries(section: Section, key: str) -> Iterator[tuple[str, Section]]:
    """A mapping by name, or a list of mappings with a `name`; a type alone may stand for its mapping."""
    raw = section.get(key)
    if isinstance(raw, list):
        yield from _read_listed_entries(section, key, raw)
        return
    for name, body in _mapping_items(section, key):
        if not isinstance(name, str) or not name.strip():
            section.error("wrong_type", key, f"has the key {name!r}, where a name is needed; write it in quotes")
            continue
        one = section.child({"type": body} if isinstance(body, str) else body, f"{key}.{name}")
        if isinstance(body, str | Mapping):  # what is neither has been said
            yield name, one


def _read_listed_entries(section: Section, key: str, entries: list[Any]) -> Iterator[tuple[str, Section]]:
    seen: set[str] = set()
    for index, body in enumerate(entries):
        one = section.child(body, f"{key}[{index}]")
        if not isinstance(body, Mapping):
            continue
        name = one.required_text("name")
        if name in seen:
            one.error("duplicate_name", "name", f"{name} is defined twice; rename or remove one")
        if name:
            seen.add(name)
            yield name, one


def read_required_names(section: Section, fields: Mapping[str, Section]) -> frozenset[str] | None:
    """The model's own list of the fields that must be there; None when it has none, so that all must."""
    raw = section.get("required")
    if not isinstance(raw, list):
        return None
    for index, name in enumerate(raw):
        if not isinstance(name, str) or name not in fields:
            message = f"{str(name)[:100]} is not a field of this model; remove it, or define the field"
            section.warning("undefined_field", f"required[{index}]", message)
    return frozenset(name for name in raw if isinstance(name, str))


def _mapping_items(section: Section, key: str) -> Iterable[tuple[Any, Any]]:
    """YAML has keys that are no text: `on` is true."""
    return section.mapping(key).items()
