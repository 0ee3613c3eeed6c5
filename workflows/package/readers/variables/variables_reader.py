"""The reader of context variables: definitions and exposures to agents."""

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from workflows.context.run_facts import FIXED_NAMES
from workflows.context.state.state_transitions import Unset, captured_group
from workflows.context.values.type_coercion import MisfitError, coerce, coerce_or_keep, find_unstorable
from workflows.context.values.value_types import ValueType, is_one_of, parse_type_name
from workflows.package.normal_form.package_model import Variable
from workflows.package.normal_form.variable_sources import (
    ComputedSource,
    EntitySource,
    Source,
    SourceKind,
    StateSource,
    WriteTarget,
)
from workflows.package.readers.section import Section
from workflows.package.readers.variables.sources_reader import SourceContext, read_source
from workflows.package.readers.variables.variable_definitions import (
    LISTED_TYPES,
    Exposure,
    VariableDefinition,
    read_definitions,
    read_exposures,
)
from workflows.package.readers.variables.write_targets import check_written_field

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")  # must fit into ${name} and into keys of run documents
_UNENFORCED_FIELDS = ("authority_class", "writer_ids", "persisted")
_DEFAULT_FIELDS = ("default", "default_value", "initial", "value")
# In early forms the fields of the source are beside these on the definition.
_DEFINITION_FIELDS = frozenset(
    {"name", "type", "description", "enum", "allowed_values", "required", "model_visible", *_UNENFORCED_FIELDS}
)
# The source type of a definition without a source, by a field that it has.
_SOURCE_TYPE_BY_FIELD: Mapping[str, str] = {
    "env_var": "environment",
    "computation": "computed",
    "triggers": "derived",
    "transitions": "derived",
    "trigger": "derived",
    "url": "external",
    "collection": "database",
    "value": "static",
}
_ALWAYS_PRESENT_KINDS: frozenset[SourceKind] = frozenset({"static", "state", "computed"})

_TYPE_BY_PYTHON: Mapping[type, ValueType] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    dict: "object",
    list: "array",
}


def read_variables(root: Section, *, folder: Path) -> tuple[dict[str, Variable], dict[str, tuple[str, ...]]]:
    variables: dict[str, Variable] = {}
    sections: dict[str, Section] = {}
    hidden: set[str] = set()
    for definition in read_definitions(root):
        name, section = definition.name, definition.section
        if name in variables:
            section.error("duplicate_variable", "", f"{name} is defined twice; remove one")
        _check_name(definition)
        variables[name] = _read_variable(definition, folder, root.body.get("database_name"))
        sections[name] = section
        if not section.flag("model_visible", default=True):
            hidden.add(name)
        section.get(*_UNENFORCED_FIELDS)
        section.report_unread()
    for name, section in sections.items():
        variables[name] = _resolve_persist_to(variables[name], section, variables)
    _report_unenforced(root, sections)
    exposures = _read_exposed(root, hidden)
    root.report_unread()
    return variables, exposures


def _check_name(definition: VariableDefinition) -> None:
    if not _NAME.fullmatch(definition.name):
        message = f"{definition.name[:100]!r} is not a valid name; use letters, digits, dashes and underscores"
        definition.section.error("wrong_value", "name", message)
    if definition.name in FIXED_NAMES:
        definition.section.warning(
            "base_name", "", f"{definition.name} is a fact of every run, which replaces this value; choose another name"
        )


def _read_variable(definition: VariableDefinition, folder: Path, database: Any) -> Variable:
    section = definition.section
    source_section, is_legacy = _source_section(definition)
    default = _read_default(section, source_section)
    declared, enum = read_type(section, default)
    context = SourceContext(folder, declared, database if isinstance(database, str) else None, is_legacy=is_legacy)
    source = read_source(source_section, context)
    required = source_section.flag("required") or section.flag("required")
    if required and source.kind in _ALWAYS_PRESENT_KINDS:
        message = f"has no effect: a {source.kind} variable always has its default"
        source_section.warning("not_executed", "required", message)
    source_section.report_unread()
    _check_values(source_section, source, enum)
    return Variable(
        name=definition.name,
        type=declared,
        source=source,
        default=_fit_default(source_section, default, declared, enum),
        required=required,
        description=section.text("description") or "",
        place=section.path,
        enum=enum,
    )


def _source_section(definition: VariableDefinition) -> tuple[Section, bool]:
    """Returns the section of the source, and whether it is under `database`.

    The source is under `source`, in early forms under `database` or on the definition itself.
    """
    section, body = definition.section, definition.section.body
    raw = section.get("source")
    if isinstance(raw, Mapping) and raw.get("type") is None and definition.source_type in LISTED_TYPES:
        return section.child({**raw, "type": definition.source_type}, "source"), False
    if raw is not None:
        source_section = section.child(raw, "source")  # reports a source that is not a mapping
        if not isinstance(raw, Mapping):
            source_section = section.child({"type": definition.source_type}, "source")
        return source_section, False
    nested = body.get("database")
    if isinstance(nested, Mapping):
        section.get("database")
        return section.child({**nested, "type": "database"}, "database"), True
    fields = {name: value for name, value in body.items() if name not in _DEFINITION_FIELDS}
    section.get(*fields)
    return section.child({**fields, "type": _infer_source_type(definition)}, ""), False


def _infer_source_type(definition: VariableDefinition) -> str:
    if definition.source_type in LISTED_TYPES:
        return definition.source_type
    return next(
        (kind for field, kind in _SOURCE_TYPE_BY_FIELD.items() if definition.section.body.get(field) is not None),
        definition.source_type,
    )


def _read_default(section: Section, source_section: Section) -> Any:
    """Reads the default from the source, else from the definition.

    For constants, `value` comes first.
    """
    is_static = source_section.body.get("type") == "static"
    names = ("value", *_DEFAULT_FIELDS) if is_static else _DEFAULT_FIELDS
    value = source_section.get(*names)
    return section.get(*names) if value is None else value


def _fit_default(source_section: Section, default: Any, declared_type: ValueType, enum: tuple[Any, ...]) -> Any:
    problem = find_unstorable(default)
    if problem is not None:
        source_section.error("wrong_value", "default", problem)
        return None
    try:
        value = coerce(default, declared_type)
    except MisfitError:
        message = (
            f"is not of type {declared_type}, which the variable declares; conditions compare it without conversion"
        )
        source_section.warning("wrong_default", "default", message)
        return default
    if enum and value is not None and not is_one_of(value, enum):
        source_section.warning("wrong_default", "default", "is not one of the values in enum")
    return value


def _check_values(source_section: Section, source: Source, enum: tuple[Any, ...]) -> None:
    if not enum or not isinstance(source, StateSource):
        return
    for transition in source.transitions:
        for to in (transition.to, transition.from_):
            known = isinstance(to, Unset) or to is None or captured_group(to) is not None
            if not known and not is_one_of(to, enum):
                source_section.warning("not_in_enum", "transitions", f"use {str(to)[:100]!r}, which is not in enum")


def _resolve_persist_to(variable: Variable, section: Section, variables: Mapping[str, Variable]) -> Variable:
    """Resolves `persist_to: entity` or `entity.field` to that document."""
    source = variable.source
    raw = section.body.get("source")
    text = (raw if isinstance(raw, Mapping) else section.body).get("persist_to")
    if not isinstance(source, ComputedSource) or not isinstance(text, str):
        return variable
    place = section.child({}, "source" if isinstance(raw, Mapping) else "")
    name, _, field = text.partition(".")
    entity = variables[name].source if name in variables else None
    if not isinstance(entity, EntitySource):
        message = (
            f"{name[:100]} is not a data_entity variable; name one, or write database, collection, search_by, field"
        )
        place.error("unknown_variable", "persist_to", message)
        return variable
    target_field = check_written_field(place, "persist_to", field or variable.name)
    strategy = entity.write.strategy if entity.write is not None else "on_success"
    value = entity.query.get(entity.search_by) if entity.query else None
    target = WriteTarget(entity.database, entity.collection, entity.search_by, strategy, target_field, value)
    return replace(variable, source=replace(source, persist_to=target))


def _report_unenforced(root: Section, sections: Mapping[str, Section]) -> None:
    """Reports unenforced fields once per file, since some files have hundreds."""
    unenforced: set[str] = set()
    count = 0
    for section in sections.values():
        found = {name for name in _UNENFORCED_FIELDS if section.get(name) not in (None, True, [], "")}
        unenforced |= found
        count += bool(found)
    if unenforced:
        names = ", ".join(sorted(unenforced))
        message = f"{names} of {count} variables are not enforced: any tool of the run may write them"
        root.findings.add("info", "not_enforced", root.file, root.path_of("definitions"), message)


def _read_exposed(root: Section, hidden: Collection[str]) -> dict[str, tuple[str, ...]]:
    exposures: dict[str, tuple[str, ...]] = {}
    for exposure in read_exposures(root):
        for name in exposure.names:
            if name in hidden:
                _report_hidden(root, exposure, name)
        visible = (name for name in exposure.names if name not in hidden)
        exposures[exposure.agent] = tuple(dict.fromkeys((*exposures.get(exposure.agent, ()), *visible)))
    return exposures


def _report_hidden(root: Section, exposure: Exposure, name: str) -> None:
    message = f"{name} has model_visible: false, so {exposure.agent} does not see it; remove one of the two"
    root.findings.add("warning", "not_visible", root.file, exposure.path, message)


def read_type(section: Section, default: Any) -> tuple[ValueType, tuple[Any, ...]]:
    """Returns the type, and the values of `enum` in that type.

    The type is declared, else it is the type of the default.
    """
    raw = section.get("type")
    if isinstance(raw, list):  # JSON Schema's form of a nullable type
        raw = next((item for item in raw if item != "null"), None)
    declared = _TYPE_BY_PYTHON.get(type(default), "string")
    if raw not in (None, "null"):
        declared = parse_type_name(raw) or "string"
        if parse_type_name(raw) is None:
            section.error("wrong_value", "type", f"{str(raw)[:100]} is not one of {', '.join(get_args(ValueType))}")
    return declared, tuple(coerce_or_keep(item, declared) for item in section.sequence("enum", "allowed_values"))
