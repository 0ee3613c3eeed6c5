"""The reader of variable sources: two taxonomies in one normal form."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from workflows.context.documents.query_templates import SERVER_CODE
from workflows.context.values.type_coercion import find_unstorable
from workflows.context.values.value_types import ValueType, parse_type_name
from workflows.package.normal_form.variable_sources import (
    DatabaseSource,
    EntitySource,
    EnvSource,
    PersistKey,
    RuntimeSource,
    Source,
    StateSource,
    StaticSource,
    WriteTarget,
)
from workflows.package.readers.section import Section
from workflows.package.readers.variables.computed_source import read_computed_source
from workflows.package.readers.variables.external_source import read_external_source
from workflows.package.readers.variables.file_source import read_file_source
from workflows.package.readers.variables.query_placeholders import check_placeholders, find_unfillable_reason
from workflows.package.readers.variables.transitions_reader import read_transitions
from workflows.package.readers.variables.write_targets import (
    COLLECTION_FIELDS,
    DATABASE_FIELDS,
    FIELD_NAME,
    read_collection_place,
    read_search_by,
    read_write_strategy,
)

_ONCE_STRATEGIES = ("once", "on_start", "never", "startup")
_PER_TURN = "per_turn"
_PERSIST_KEYS: Mapping[str, PersistKey] = {key: key for key in get_args(PersistKey)}


@dataclass(frozen=True, slots=True)
class SourceContext:
    """The context of a source besides its own fields.

    `is_legacy`: the source was under `database:`.
    """

    folder: Path
    type: ValueType
    database: str | None = None
    is_legacy: bool = False


def read_source(source: Section, context: SourceContext) -> Source:
    kind = source.required_text("type").lower()
    reader = SOURCE_READERS.get(kind)
    if reader is not None:
        return reader(source, context)
    if kind:
        source.get(*source.body)  # marked as read: the fields of an unknown source are unknown
        source.error("unknown_source", "type", f"{kind} is not one of {', '.join(sorted(SOURCE_READERS))}")
    return StateSource()


def _read_environment(source: Section) -> Source:
    name = source.required_text("env_var")
    if "=" in name or "\0" in name:
        source.error("wrong_value", "env_var", "must be the name of an environment variable, without =")
    return EnvSource(name)


def _read_database(source: Section, context: SourceContext) -> Source:
    """Reads a database source.

    `search_by: user_id` means the query {user_id: {{runtime.user_id}}}.
    """
    query = _read_query(source)
    fields = _read_fields(source)
    _check_provider(source)
    is_refreshed = _read_is_refreshed(source)
    if context.is_legacy and not (context.database or source.text(*DATABASE_FIELDS)):
        message = "is missing, so nothing is read and the default is used; add database_name"
        source.warning("no_database", "database_name", message)
        source.required_text(*COLLECTION_FIELDS)
        return StateSource()
    database, collection = read_collection_place(source, database=context.database)
    return DatabaseSource(database, collection, query, fields, is_refreshed)


def _read_query(source: Section) -> Mapping[str, Any]:
    """Reads the query from `query_template`, `search_by` or `query`.

    `query` is a filter or the field to search by.
    """
    template = source.body.get("query_template") or source.body.get("query") or {}
    by = read_search_by(source, "search_by") or (read_search_by(source, "query") if isinstance(template, str) else None)
    query = {} if isinstance(template, str) else dict(source.mapping("query_template", "query"))
    if by is not None:
        query.setdefault(by, f"{{{{runtime.{by}}}}}")
    if not query and not source.text("search_by"):
        source.error("missing_field", "query_template", "is required, or search_by")
    _check_query(source, query)
    return query


def _check_query(source: Section, query: Mapping[str, Any]) -> None:
    field = "query_template" if "query_template" in source.body else "query"
    problem = find_unstorable(query)
    if problem is not None:
        source.error("wrong_value", field, problem)
    for operator in sorted(_nested_keys(query) & SERVER_CODE):
        source.error("forbidden_operator", field, f"{operator} runs code in the database; compare fields instead")
    check_placeholders(source, field, query)
    reason = find_unfillable_reason(query)
    if reason is not None:
        source.error("bad_placeholder", field, reason)


def _nested_keys(value: Any) -> set[str]:
    if isinstance(value, Mapping):
        return {str(key) for key in value} | set().union(*(_nested_keys(item) for item in value.values()))
    return set().union(*(_nested_keys(item) for item in value)) if isinstance(value, list) else set()


def _read_fields(source: Section) -> tuple[str, ...]:
    """Reads `fields`, or takes them from `schema`.

    `schema` is a mapping of fields to types, or a JSON Schema.
    """
    names: Any = source.get("fields", "field")
    if names is None:
        schema = source.mapping("schema")
        inner = schema.get("properties", {} if schema.get("type") == "object" else None)
        described = inner if isinstance(inner, Mapping) else schema
        _check_types(source, described)
        names = list(described)
    names = [names] if isinstance(names, str) else list(names) if isinstance(names, Mapping) else names
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        source.error("wrong_type", "fields", "must be a list of field names")
        return ()
    if not names and isinstance(source.body.get("schema") or {}, Mapping):
        source.error("missing_field", "fields", "is required: name the fields to read")
    if not all(FIELD_NAME.fullmatch(name) for name in names):
        source.error("wrong_value", "fields", "must be top-level fields, without dots and $")
    return tuple(dict.fromkeys(names))


def _check_types(source: Section, types: Mapping[Any, Any]) -> None:
    """Checks the types of fields, each a word or a JSON Schema.

    null stands for any type.
    """
    for name, declared in types.items():
        words = declared.get("type") if isinstance(declared, Mapping) else declared
        for word in words if isinstance(words, list) else [words]:
            if word not in (None, "null") and parse_type_name(word) is None:
                known = ", ".join(get_args(ValueType))
                message = f"{name} is of type {str(word)[:100]}, which is not one of {known}"
                source.error("unknown_type", "schema", message[:300])


def _check_provider(source: Section) -> None:
    kind = source.text("db_type")
    if kind is not None and kind.lower() not in ("mongodb", "mongo"):
        source.error("unsupported", "db_type", f"{kind} is not supported; only mongodb is")


def _read_is_refreshed(source: Section) -> bool:
    strategy = (source.text("refresh_strategy") or _ONCE_STRATEGIES[0]).strip().lower()
    if strategy not in (*_ONCE_STRATEGIES, _PER_TURN):
        why = (
            f"{strategy[:100]} is not executed: the value is read once, at the start of the run; write per_turn or once"
        )
        source.report_ignored("refresh_strategy", why)
    return strategy == _PER_TURN


def _read_entity(source: Section, context: SourceContext) -> Source:
    """Reads a `data_entity`. Without a write_strategy it is not written back."""
    database, collection = read_collection_place(source, database=context.database)
    query = _read_query(source) if source.body.get("query_template") or source.body.get("query") else None
    by = read_search_by(source, "search_by") if query is None else _find_write_key(source, query)
    if by is None and not source.text("search_by") and query is None:
        message = "is required: the field of the document that equals a value of the run; or query_template"
        source.error("missing_field", "search_by", message)
    fields = _read_fields(source)
    _check_provider(source)
    if _read_is_refreshed(source):
        why = "is not executed: an entity is read once, since the run's changes are written back; use a data_reference"
        source.report_ignored("refresh_strategy", why)
    strategy = read_write_strategy(source, default=None)
    value = None if query is None or by is None else query[by]
    write = WriteTarget(database, collection, by or "", strategy, value=value) if strategy is not None else None
    return EntitySource(database, collection, by or "", fields, write, query)


def _find_write_key(source: Section, query: Mapping[str, Any]) -> str | None:
    """Returns the field of the query that finds the document for the write.

    It is `search_by`, or the only field.
    """
    by = source.text("search_by") or (next(iter(query)) if len(query) == 1 else "_id" if "_id" in query else None)
    field = "query_template" if "query_template" in source.body else "query"
    template = source.body.get(field)
    if isinstance(template, Mapping) and source.text("search_by") not in (None, *template):
        source.error("wrong_value", "search_by", f"must be a field of {field}: the one that finds the document again")
        return None
    if source.text("write_strategy") is None:
        return by if by in query else None
    if by is None or by not in query:
        source.error(
            "missing_field", "search_by", f"is required: the field of {field} that finds the document for the write"
        )
        return None
    if not FIELD_NAME.fullmatch(by) or not isinstance(query[by], str | int | float | bool):
        message = f"{by} finds the document for the write, so it must be one value, such as '{{{{runtime.order_id}}}}'"
        source.error("wrong_value", field, message)
        return None
    return by


def _read_state(source: Section, context: SourceContext) -> Source:
    return StateSource(read_transitions(source, context.type), _read_persist_key(source))


def _read_persist_key(source: Section) -> PersistKey | None:
    word = source.text("persist_key")
    if not source.flag("persist"):
        if word is not None:
            source.report_ignored("persist_key", "has no effect without persist: true")
        return None
    key = _PERSIST_KEYS.get((word or "none").strip().lower())
    if key is None:
        source.error("wrong_value", "persist_key", f"must be one of {', '.join(_PERSIST_KEYS)}")
    return key or "none"


def _read_file(source: Section, context: SourceContext) -> Source:
    return read_file_source(source, folder=context.folder, declared_type=context.type)


SourceReader = Callable[[Section, SourceContext], Source]


def _without_context(read: Callable[[Section], Source]) -> SourceReader:
    return lambda source, _: read(source)


SOURCE_READERS: Mapping[str, SourceReader] = {
    **dict.fromkeys(("environment", "config"), _without_context(_read_environment)),
    **dict.fromkeys(("database", "data_reference"), _read_database),
    "data_entity": _read_entity,
    "static": _without_context(lambda _: StaticSource()),
    **dict.fromkeys(("derived", "state"), _read_state),
    "computed": _without_context(read_computed_source),
    "external": _without_context(read_external_source),
    "file": _read_file,
    **dict.fromkeys(("runtime", "build_context"), _without_context(lambda _: RuntimeSource())),
}
