"""Variable definitions: six dialects, reduced to definitions and exposures.

Structured files have `definitions`, `variables` or one of four lists. Any other file is flat: each key is a variable.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from workflows.package.files.package_files import METADATA_FIELDS
from workflows.package.readers.section import Section

# The source type of the variables in a list, by the list's name.
_TYPED_LISTS: Mapping[str, str] = {
    "database_variables": "database",
    "environment_variables": "environment",
    "declarative_variables": "static",
    "derived_variables": "derived",
}
LISTED_TYPES = frozenset(_TYPED_LISTS.values())
_AGENT_NAMES = ("agent_name", "agent", "name")
_FILE_FIELDS = (*METADATA_FIELDS, "workflow_name", "metadata", "database_name")
_DEFINITION_FIELDS = frozenset(
    {"type", "description", "default", "default_value", "initial", "value", "enum", "required", "source", "name"}
)


@dataclass(frozen=True, slots=True)
class VariableDefinition:
    """One variable as written.

    `source_type`: its default source, from its place in the file.
    """

    name: str
    section: Section
    source_type: str


@dataclass(frozen=True, slots=True)
class Exposure:
    agent: str
    names: tuple[str, ...]
    path: str


def read_definitions(root: Section) -> Iterator[VariableDefinition]:
    """Yields all definitions.

    Without a source a structured variable is state, a flat one a runtime value.
    """
    root.get(*_FILE_FIELDS)
    if root.get("schema_overview") is not None:
        root.report_ignored("schema_overview", "is not read: agents get no description of a database here; remove it")
    if not _is_structured(root.body):
        yield from _read_flat(root)
        return
    for field, source_type in (("definitions", "state"), ("variables", "state"), *_TYPED_LISTS.items()):
        yield from _read_listed(root, field, source_type)


def _is_structured(body: Mapping[str, Any]) -> bool:
    lists = any(isinstance(body.get(name), list) for name in _TYPED_LISTS)
    return "definitions" in body or "variables" in body or lists


def _read_listed(root: Section, field: str, source_type: str) -> Iterator[VariableDefinition]:
    body = root.get(field)
    if isinstance(body, Mapping):
        for name, entry in body.items():
            yield _make_definition(root, name, entry, f"{field}.{name}", source_type)
    elif isinstance(body, list):
        for index, entry in enumerate(body):
            section = root.child(entry, f"{field}[{index}]")
            name = section.required_text("name") if section.body else ""
            if name:
                yield VariableDefinition(name, section, source_type)
    elif body is not None:
        root.error("wrong_type", field, "must be a mapping or a list")


def _read_flat(root: Section) -> Iterator[VariableDefinition]:
    for name, entry in root.body.items():
        is_metadata = name in _FILE_FIELDS and not isinstance(entry, Mapping)
        if is_metadata or name == "schema_overview" or (name == "agents" and _are_exposures(entry)):
            continue
        root.get(name)
        yield _make_definition(root, name, entry, str(name), "runtime")


def _make_definition(root: Section, name: Any, entry: Any, path: str, source_type: str) -> VariableDefinition:
    section = root.child({} if entry is None else entry, path)
    section.get("name")
    return VariableDefinition(str(name), section, source_type)


def _are_exposures(body: Any) -> bool:
    """Returns whether `agents` has exposures.

    In a flat file it may be a variable with a definition's fields.
    """
    if not isinstance(body, Mapping):
        return isinstance(body, list)
    lists = all(
        isinstance(entry, list) or (isinstance(entry, Mapping) and "variables" in entry) for entry in body.values()
    )
    return lists and not _DEFINITION_FIELDS & {str(name) for name in body}


def read_exposures(root: Section) -> Iterator[Exposure]:
    """Yields the exposures of agents.

    Forms: `{Agent: {variables: [..]}}`, `{Agent: [..]}`, or a list of named entries.
    """
    if not _is_structured(root.body) and not _are_exposures(root.body.get("agents")):
        return
    body = root.get("agents") or {}
    if isinstance(body, Mapping):
        for name, entry in body.items():
            yield from _read_exposure(root, str(name), entry, f"agents.{name}")
        return
    if not isinstance(body, list):
        root.error("wrong_type", "agents", "must be a mapping or a list")
        return
    for index, entry in enumerate(body):
        section = root.child(entry, f"agents[{index}]")
        name = section.required_text(*_AGENT_NAMES) if section.body else ""
        if name:
            yield from _read_exposure(root, name, entry, f"agents[{index}]")


def find_exposure_places(root: Section) -> dict[str, str]:
    """Returns the place of each agent's first entry."""
    body = root.body.get("agents")
    if not isinstance(body, list):
        return {str(name): root.path_of(f"agents.{name}") for name in body} if isinstance(body, Mapping) else {}
    places: dict[str, str] = {}
    for index, entry in enumerate(body):
        if isinstance(entry, Mapping):
            name = next((entry[key] for key in _AGENT_NAMES if entry.get(key) is not None), None)
            places.setdefault(str(name).strip(), root.path_of(f"agents[{index}]"))
    return places


def _read_exposure(root: Section, agent: str, entry: Any, path: str) -> Iterator[Exposure]:
    if entry is None:
        return
    if isinstance(entry, list):
        yield Exposure(agent, _read_variable_names(root, entry, path), root.path_of(path))
        return
    if not isinstance(entry, Mapping):
        root.error("wrong_type", path, "must be a list of variable names, such as [first, second]")
        return
    section = root.child(entry, path)
    section.get(*_AGENT_NAMES)
    yield Exposure(
        agent, _read_variable_names(section, section.sequence("variables"), "variables"), section.path_of("variables")
    )
    for index, raw in enumerate(section.sequence("exposures")):
        exposure = section.child(raw, f"exposures[{index}]")
        names = _read_variable_names(exposure, exposure.sequence("variables"), "variables")
        yield Exposure(agent, names, exposure.path_of("variables"))
        exposure.report_unread("is not executed: all exposed variables are in one section of the agent's prompt")
    section.report_unread("is not executed: all exposed variables are in one section of the agent's prompt")


def _read_variable_names(section: Section, names: list[Any], field: str) -> tuple[str, ...]:
    for index, name in enumerate(names):
        if not isinstance(name, str):
            section.error("wrong_type", f"{field}[{index}]", "must be the name of a variable, as text")
    return tuple(name for name in names if isinstance(name, str))
