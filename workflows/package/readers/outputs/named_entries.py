"""Named entries: mappings by name, or lists, of models and their fields."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from workflows.package.readers.section import Section


def read_named_entries(section: Section, key: str) -> Iterator[tuple[str, Section]]:
    """Yields names and sections of a mapping, or of a list of mappings with a `name`.

    In a mapping, a text stands for {type: text}.
    """
    raw = section.get(key)
    if isinstance(raw, list):
        yield from _read_listed_entries(section, key, raw)
        return
    for name, body in _mapping_items(section, key):
        if not isinstance(name, str) or not name.strip():
            section.error("wrong_type", key, f"has the key {name!r}, which is not a name; write it in quotes")
            continue
        entry = section.child({"type": body} if isinstance(body, str) else body, f"{key}.{name}")
        if isinstance(body, str | Mapping):  # anything else was reported by child()
            yield name, entry


def _read_listed_entries(section: Section, key: str, entries: list[Any]) -> Iterator[tuple[str, Section]]:
    seen: set[str] = set()
    for index, body in enumerate(entries):
        entry = section.child(body, f"{key}[{index}]")
        if not isinstance(body, Mapping):
            continue
        name = entry.required_text("name")
        if name in seen:
            entry.error("duplicate_name", "name", f"{name} is defined twice; rename or remove one")
        if name:
            seen.add(name)
            yield name, entry


def read_required_names(section: Section, fields: Mapping[str, Section]) -> frozenset[str] | None:
    """Returns the model's list of required fields.

    Returns None if it has no list, so that all are required.
    """
    raw = section.get("required")
    if not isinstance(raw, list):
        return None
    for index, name in enumerate(raw):
        if not isinstance(name, str) or name not in fields:
            message = f"{str(name)[:100]} is not a field of this model; remove it, or define the field"
            section.warning("undefined_field", f"required[{index}]", message)
    return frozenset(name for name in raw if isinstance(name, str))


def _mapping_items(section: Section, key: str) -> Iterable[tuple[Any, Any]]:
    """Returns items with keys of any type: YAML reads the key `on` as true."""
    return section.mapping(key).items()
