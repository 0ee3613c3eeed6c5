"""Reads the context variables: what is defined, of which type and source, and which agent sees it."""

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from workflows.context.facts import FIXED_NAMES
from workflows.context.fitting import MisfitError, fit, unstorable
from workflows.context.observing import Unset, captured_group
from workflows.context.value_types import ValueType, is_one_of
from workflows.package.models import Variable
from workflows.package.reading.context_roots import LISTED_TYPES, Definition, Exposure, definitions, exposures
from workflows.package.reading.section import Section
from workflows.package.reading.sources import SourceContext, read_source
from workflows.package.reading.value_types import read_type
from workflows.package.reading.write_targets import written_field
from workflows.package.sources import ComputedSource, EntitySource, Source, SourceKind, StateSource, WriteTarget

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")  # a key of run documents, and what ${name} can say
_NOT_ENFORCED = ("authority_class", "writer_ids", "persisted")
_DEFAULTS = ("default", "default_value", "initial", "value")
# In early forms the fields of the source stand on the definition, beside these.
_OF_THE_DEFINITION = frozenset(
    {"name", "type", "description", "enum", "allowed_values", "required", "model_visible", *_NOT_ENFORCED}
)
# What a definition without a source is, by the field that tells.
_BARE: Mapping[str, str] = {
    "env_var": "environment",
    "computation": "computed",
    "triggers": "derived",
    "transitions": "derived",
    "trigger": "derived",
    "url": "external",
    "collection": "database",
    "value": "static",
}
_NEVER_MISSING: frozenset[SourceKind] = frozenset({"static", "state", "computed"})


def read_variables(root: Section, *, folder: Path) -> tuple[dict[str, Variable], dict[str, tuple[str, ...]]]:
    variables: dict[str, Variable] = {}
    sections: dict[str, Section] = {}
    hidden: set[str] = set()
    for one in definitions(root):
        if one.name in variables:
            one.section.error("duplicate_variable", "", f"{one.name} is defined twice; remove one")
        _check_name(one)
        variables[one.name] = _variable(one, folder, root.body.get("database_name"))
        sections[one.name] = one.section
        if not one.section.flag("model_visible", default=True):
            hidden.add(one.name)
        one.section.get(*_NOT_ENFORCED)
        one.section.report_rest()
    for name, section in sections.items():
        variables[name] = _persisted(variables[name], section, variables)
    _tell_what_is_not_enforced(root, sections)
    exposed = _exposed(root, hidden)
    root.report_rest()
    return variables, exposed


def _check_name(one: Definition) -> None:
    if not _NAME.fullmatch(one.name):
        message = f"{one.name[:100]!r} cannot be used; use letters, digits, dashes and underscores"
        one.section.error("wrong_value", "name", message)
    if one.name in FIXED_NAMES:
        one.section.warning("base_name", "", f"{one.name} is the run's own, and its value wins; choose another name")


def _variable(one: Definition, folder: Path, database: Any) -> Variable:
    section = one.section
    given, legacy = _source_section(one)
    default = _default(section, given)
    declared, enum = read_type(section, default)
    context = SourceContext(folder, declared, database if isinstance(database, str) else None, legacy=legacy)
    source = read_source(given, context)
    required = given.flag("required") or section.flag("required")
    if required and source.kind in _NEVER_MISSING:
        given.warning("not_executed", "required", f"means nothing here: a {source.kind} variable has its default")
    given.report_rest()
    _check_values(given, source, enum)
    return Variable(
        name=one.name,
        type=declared,
        source=source,
        default=_typed(given, default, declared, enum),
        required=required,
        description=section.text("description") or "",
        place=section.path,
        enum=enum,
    )


def _source_section(one: Definition) -> tuple[Section, bool]:
    """`source: {..}`; or, in early forms, under `database` (then the flag is true) or on the definition itself."""
    section, body = one.section, one.section.body
    raw = section.get("source")
    if isinstance(raw, Mapping) and raw.get("type") is None and one.source_type in LISTED_TYPES:
        return section.child({**raw, "type": one.source_type}, "source"), False
    if raw is not None:
        given = section.child(raw, "source")
        return given if isinstance(raw, Mapping) else section.child({"type": one.source_type}, "source"), False
    nested = body.get("database")
    if isinstance(nested, Mapping):
        section.get("database")
        return section.child({**nested, "type": "database"}, "database"), True
    fields = {name: value for name, value in body.items() if name not in _OF_THE_DEFINITION}
    section.get(*fields)
    return section.child({**fields, "type": _bare_type(one)}, ""), False


def _bare_type(one: Definition) -> str:
    if one.source_type in LISTED_TYPES:
        return one.source_type
    return next((kind for field, kind in _BARE.items() if one.section.body.get(field) is not None), one.source_type)


def _default(section: Section, given: Section) -> Any:
    """A constant is its `value` before its `default`; what the source leaves out may stand beside it."""
    static = given.body.get("type") == "static"
    names = ("value", *_DEFAULTS) if static else _DEFAULTS
    value = given.get(*names)
    return section.get(*names) if value is None else value


def _typed(given: Section, default: Any, declared: ValueType, enum: tuple[Any, ...]) -> Any:
    problem = unstorable(default)
    if problem is not None:
        given.error("wrong_value", "default", problem)
        return None
    try:
        value = fit(default, declared)
    except MisfitError:
        message = f"is no {declared}, which the variable is declared as; conditions compare it as it is"
        given.warning("wrong_default", "default", message)
        return default
    if enum and value is not None and not is_one_of(value, enum):
        given.warning("wrong_default", "default", "is none of the values that enum allows")
    return value


def _check_values(given: Section, source: Source, enum: tuple[Any, ...]) -> None:
    if not enum or not isinstance(source, StateSource):
        return
    for transition in source.transitions:
        for to in (transition.to, transition.from_):
            known = isinstance(to, Unset) or to is None or captured_group(to) is not None
            if not known and not is_one_of(to, enum):
                given.warning("not_in_enum", "transitions", f"use {str(to)[:100]!r}, which enum does not allow")


def _persisted(variable: Variable, section: Section, variables: Mapping[str, Variable]) -> Variable:
    """`persist_to: entity` or `entity.field`: into the document of that data_entity variable."""
    source = variable.source
    raw = section.body.get("source")
    text = (raw if isinstance(raw, Mapping) else section.body).get("persist_to")
    if not isinstance(source, ComputedSource) or not isinstance(text, str):
        return variable
    place = section.child({}, "source" if isinstance(raw, Mapping) else "")
    name, _, field = text.partition(".")
    entity = variables[name].source if name in variables else None
    if not isinstance(entity, EntitySource):
        message = f"{name[:100]} is no data_entity variable; name one, or write database, collection, search_by, field"
        place.error("unknown_variable", "persist_to", message)
        return variable
    written = written_field(place, "persist_to", field or variable.name)
    strategy = entity.write.strategy if entity.write is not None else "on_success"
    value = entity.query.get(entity.search_by) if entity.query else None
    target = WriteTarget(entity.database, entity.collection, entity.search_by, strategy, written, value)
    return replace(variable, source=replace(source, persist_to=target))


def _tell_what_is_not_enforced(root: Section, sections: Mapping[str, Section]) -> None:
    """Once for the file: some have hundreds."""
    told: set[str] = set()
    count = 0
    for section in sections.values():
        found = {name for name in _NOT_ENFORCED if section.get(name) not in (None, True, [], "")}
        told |= found
        count += bool(found)
    if told:
        message = f"{', '.join(sorted(told))} of {count} variables are not enforced: any tool of the run may write them"
        root.findings.add("info", "not_enforced", root.file, root.at("definitions"), message)


def _exposed(root: Section, hidden: Collection[str]) -> dict[str, tuple[str, ...]]:
    exposed: dict[str, tuple[str, ...]] = {}
    for one in exposures(root):
        for name in one.names:
            if name in hidden:
                _tell_hidden(root, one, name)
        shown = (*exposed.get(one.agent, ()), *(name for name in one.names if name not in hidden))
        exposed[one.agent] = tuple(dict.fromkeys(shown))
    return exposed


def _tell_hidden(root: Section, one: Exposure, name: str) -> None:
    message = f"{name} is model_visible: false, so {one.agent} does not see it; remove one of the two"
    root.findings.add("warning", "not_visible", root.file, one.path, message)
