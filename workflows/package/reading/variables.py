"""Reads the context variables: definitions in either taxonomy, and which agent sees which."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from workflows.package.models import AgentText, SourceKind, ValueType, Variable
from workflows.package.reading.section import Section

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")  # a key of run documents, and what ${name} can say

_TYPES: Mapping[str, ValueType] = {
    **dict.fromkeys(("string", "str", "text"), "string"),
    **dict.fromkeys(("boolean", "bool"), "boolean"),
    **dict.fromkeys(("integer", "int"), "integer"),
    **dict.fromkeys(("number", "float"), "number"),
    **dict.fromkeys(("object", "dict", "json", "document"), "object"),
    **dict.fromkeys(("array", "list"), "array"),
}
_KINDS: Mapping[str, SourceKind] = {
    "environment": "env",
    "config": "env",
    "database": "db",
    "data_reference": "db",
    "static": "static",
    "derived": "state",
    "state": "state",
    "runtime": "runtime",
    "build_context": "runtime",
}


def read_variables(section: Section) -> tuple[dict[str, Variable], dict[str, tuple[str, ...]]]:
    if section.body and "definitions" not in section.body:
        section.error("unsupported", "", "write the variables under `definitions`; other forms are not read yet")
    variables: dict[str, Variable] = {}
    for name, one in _definitions(section):
        if name in variables:
            one.error("duplicate_variable", "", f"{name} is defined twice; remove one")
        if not _NAME.fullmatch(name):
            one.error("wrong_value", "name", f"{name!r} cannot be used; use letters, digits, dashes and underscores")
        variables[name] = _variable(name, one)
    exposed: dict[str, tuple[str, ...]] = {}
    for agent, names in _exposures(section):
        exposed[agent] = (*exposed.get(agent, ()), *(name for name in names if name not in exposed.get(agent, ())))
    return variables, exposed


def _definitions(section: Section) -> Iterator[tuple[str, Section]]:
    body = section.get("definitions") or {}
    if isinstance(body, Mapping):
        entries = [(str(name), entry, f"definitions.{name}") for name, entry in body.items()]
    elif isinstance(body, list):
        entries = [
            (str(entry.get("name", "")) if isinstance(entry, Mapping) else "", entry, f"definitions[{index}]")
            for index, entry in enumerate(body)
        ]
    else:
        section.error("wrong_type", "definitions", "must be a mapping or a list")
        return
    for name, entry, path in entries:
        one = Section(entry, file=section.file, path=path, findings=section.findings)
        if name:
            yield name, one
        else:
            one.error("missing_field", "name", "is needed")


def _variable(name: str, section: Section) -> Variable:
    source = Section(
        section.get("source") or {"type": "state"},
        file=section.file,
        path=section.at("source"),
        findings=section.findings,
    )
    kind = _kind(source)
    declared = str(section.get("type") or "string").lower()
    if declared not in _TYPES:
        section.error("wrong_value", "type", f"{declared} is not one of {', '.join(sorted(_TYPES))}")
    variable = Variable(
        name=name,
        type=_TYPES.get(declared, "string"),
        kind=kind,
        default=source.get("default", "default_value", "initial", "value"),
        required=source.flag("required"),
        env_var=source.required_text("env_var") if kind == "env" else None,
        triggers=tuple(_triggers(source)),
        **(_database_source(source) if kind == "db" else {}),
    )
    section.get("name", "description")
    section.report_rest()
    source.report_rest()
    return variable


def _kind(source: Section) -> SourceKind:
    raw = source.required_text("type").lower()
    kind = _KINDS.get(raw)
    if kind is None:
        source.error("unsupported", "type", f"{raw or 'nothing'} is not one of {', '.join(sorted(_KINDS))}")
        return "state"
    return kind


def _database_source(source: Section) -> dict[str, Any]:
    """`search_by: user_id` means the query {user_id: {{runtime.user_id}}}."""
    database = source.required_text("database_name", "database")
    collection = source.required_text("collection")
    query = dict(source.mapping("query_template"))
    search_by = source.text("search_by")
    if search_by is not None:
        query.setdefault(search_by, f"{{{{runtime.{search_by}}}}}")
    if not query:
        source.error("missing_field", "query_template", "is needed, or search_by")
    source.get("db_type", "refresh_strategy")
    field = source.text("field")
    fields = tuple(str(each) for each in source.sequence("fields")) or ((field,) if field else ())
    if not fields:
        source.error("missing_field", "fields", "is needed: name the fields to read, all else stays in the database")
    if any("." in name or name.startswith("$") for name in fields):
        source.error("wrong_value", "fields", "name top-level fields, without dots and $")
    return {"database": database, "collection": collection, "query": query, "fields": fields}


def _triggers(source: Section) -> Iterator[AgentText]:
    for index, raw in enumerate(source.sequence("triggers")):
        yield from _agent_text(raw, source, f"triggers[{index}]", value=True)
    for index, raw in enumerate(source.sequence("transitions")):
        path = f"transitions[{index}]"
        transition = raw if isinstance(raw, Mapping) else {}
        if transition.get("from") is not None:
            source.error("unsupported", f"{path}.from", "is not supported; leave it out")
        yield from _agent_text(transition.get("trigger"), source, f"{path}.trigger", value=transition.get("to", True))


def _agent_text(raw: Any, source: Section, field: str, *, value: Any) -> Iterator[AgentText]:
    trigger = Section(raw, file=source.file, path=source.at(field), findings=source.findings)
    kind = trigger.required_text("type")
    if kind != "agent_text":
        trigger.warning("never_fires", "type", f"{kind} is not observed in a headless run")
        return
    match = Section(trigger.get("match") or {}, file=trigger.file, path=trigger.at("match"), findings=trigger.findings)
    given = {name: text for name in ("equals", "contains", "regex") if (text := match.text(name)) is not None}
    if len(given) != 1:
        match.error("wrong_value", "", "give exactly one of equals, contains, regex")
    if "regex" in given:
        try:
            re.compile(given["regex"])
        except (re.error, OverflowError, RecursionError) as error:
            match.error("wrong_value", "regex", f"is not a regular expression: {error}")
            given = {"equals": ""}
    agent = trigger.required_text("agent")
    trigger.get("ui_hidden")
    trigger.report_rest()
    yield AgentText(agent=agent, value=value, **given)


def _exposures(section: Section) -> Iterator[tuple[str, tuple[str, ...]]]:
    """`{Agent: {variables: [..]}}`, `{Agent: [..]}`, or a list of entries with a name."""
    body = section.get("agents") or {}
    if isinstance(body, Mapping):
        entries = [(str(name), entry) for name, entry in body.items()]
    elif not isinstance(body, list):
        section.error("wrong_type", "agents", "must be a mapping or a list")
        return
    else:
        entries = [
            (str(entry.get("agent_name") or entry.get("agent") or entry.get("name") or ""), entry)
            for entry in body
            if isinstance(entry, Mapping)
        ]
    for name, entry in entries:
        names = entry.get("variables") if isinstance(entry, Mapping) else entry
        if not isinstance(names, list):
            section.error("wrong_type", f"agents.{name}", "must list variable names")
            continue
        yield name, tuple(str(each) for each in names)
