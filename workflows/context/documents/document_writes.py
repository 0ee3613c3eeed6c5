"""Document writes: variables written back after a turn, or when the run succeeds.

Pure: the writes follow from the package, the changes, and the run's own facts. A write is keyed by a fact of the run
(its app, its user, a declared input), never by a value that a tool or a model may have changed.
"""

import copy
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from workflows.context.documents.document_access import DocumentTarget, DocumentWrite, WriteRefusedError
from workflows.context.documents.query_templates import TENANT_NAMES, QueryError, fill_value
from workflows.context.reads.supplied_values import query_facts, read_inputs
from workflows.context.redaction import HIDDEN
from workflows.context.values.value_text import to_text
from workflows.package.normal_form.package_model import Package, Variable
from workflows.package.normal_form.variable_sources import ComputedSource, EntitySource, WriteStrategy, WriteTarget

log = logging.getLogger(__name__)


def turn_writes(
    package: Package,
    changed_names: Collection[str],
    context: Mapping[str, Any],
    facts: Mapping[str, Any],
    *,
    is_first_turn: bool = False,
) -> tuple[DocumentWrite, ...]:
    """Returns the `immediate` writes of a turn.

    The first turn also has those of values computed before it."""
    return tuple(_pending_writes(package, "immediate", changed_names, context, facts, include_computed=is_first_turn))


def success_writes(
    package: Package, changed_names: Collection[str], context: Mapping[str, Any], facts: Mapping[str, Any]
) -> tuple[DocumentWrite, ...]:
    """Returns the `on_success` writes: of changed values, and of all computed ones.

    A computed value is the run's own, also if no turn changed it."""
    return tuple(_pending_writes(package, "on_success", changed_names, context, facts, include_computed=True))


def key_facts(package: Package, payload: Mapping[str, Any], base: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values for keys, as supplied when the run was accepted."""
    inputs, _ = read_inputs(package, payload)  # a run without a required one did not begin
    return query_facts(package, payload, inputs, base)


def _pending_writes(
    package: Package,
    strategy: WriteStrategy,
    changed_names: Collection[str],
    context: Mapping[str, Any],
    facts: Mapping[str, Any],
    *,
    include_computed: bool,
) -> Iterator[DocumentWrite]:
    for variable in package.variables.values():
        target = _write_target(variable)
        if target is None or target.strategy != strategy or variable.name not in context:
            continue
        computed = (
            include_computed and isinstance(variable.source, ComputedSource) and context[variable.name] is not None
        )
        if computed or variable.name in changed_names:
            write = _build_write(variable, target, context[variable.name], facts)
            if write.values:
                yield write


def _write_target(variable: Variable) -> WriteTarget | None:
    if isinstance(variable.source, EntitySource):
        return variable.source.write
    if isinstance(variable.source, ComputedSource):
        return variable.source.persist_to
    return None


def _build_write(variable: Variable, target: WriteTarget, value: Any, facts: Mapping[str, Any]) -> DocumentWrite:
    failure = _failure_text(variable, target)
    items = _fields_to_write(variable, target, value, failure)
    key_value = _key_value(target, facts, failure)
    fixed_fields = {name: facts.get("app_id") for name in TENANT_NAMES} | {target.search_by: key_value}
    return DocumentWrite(
        variable=variable.name,
        app_id=str(facts["app_id"]),
        database=target.database,
        collection=target.collection,
        key=target.search_by,
        key_value=key_value,
        values=_drop_hidden(variable.name, _copy_values(dict(_check_fields(items, fixed_fields, failure)), failure)),
    )


def write_targets(variables: Iterable[Variable], facts: Mapping[str, Any]) -> Iterator[DocumentTarget]:
    """Yields the documents that these variables would be written to, entities first.

    Entities bear the names of their documents. Raises WriteRefusedError where the document is not determined."""
    for variable in sorted(variables, key=lambda variable: not isinstance(variable.source, EntitySource)):
        if (target := _write_target(variable)) is not None:
            key_value = _key_value(target, facts, _failure_text(variable, target))
            yield DocumentTarget(
                variable.name, str(facts["app_id"]), target.database, target.collection, target.search_by, key_value
            )


def _failure_text(variable: Variable, target: WriteTarget) -> str:
    return f"{variable.name} is not written to {target.database}.{target.collection}"


def _key_value(target: WriteTarget, facts: Mapping[str, Any], failure: str) -> str | int | float | bool:
    try:
        value = facts.get(target.search_by) if target.value is None else fill_value(target.value, facts)
    except QueryError as error:
        raise WriteRefusedError(f"{failure}: {error}; declare it in `inputs` and let the trigger supply it") from None
    if not isinstance(value, str | int | float | bool) or target.search_by.startswith("$"):
        raise WriteRefusedError(
            f"{failure}: {target.search_by}, which finds the document, must be a text, a number or true/false of this "
            "run; declare it in `inputs` and let the trigger supply it"
        )
    return value


def _drop_hidden(variable: str, values: dict[str, Any]) -> dict[str, Any]:
    """Leaves out hidden values, so that no placeholder overwrites the stored ones."""
    hidden = [name for name, value in values.items() if HIDDEN in to_text(value)]
    if hidden:
        log.warning("hidden_value_not_written", extra={"variable": variable, "fields": hidden})
    return {name: value for name, value in values.items() if name not in hidden}


def _fields_to_write(variable: Variable, target: WriteTarget, value: Any, failure: str) -> Mapping[Any, Any]:
    if target.field is not None:
        return {target.field: value}
    if value is None:  # nothing was found or computed, so there are no fields to set
        return {}
    if not isinstance(value, Mapping):
        raise WriteRefusedError(f"{failure}: it is not an object with fields; name the field to write")
    declared = variable.source.fields if isinstance(variable.source, EntitySource) else None
    unknown = [str(key) for key in value if declared is not None and key not in declared]
    if unknown:
        raise WriteRefusedError(
            f"{failure}: it has the key {unknown[0][:40]!r}, which is not one of its fields; declare it or leave it out"
        )
    return value


def _check_fields(items: Mapping[Any, Any], own: Mapping[str, Any], failure: str) -> Iterator[tuple[str, Any]]:
    """Leaves out id and owner fields.

    A write that would change them is refused."""
    for key, value in items.items():
        if not isinstance(key, str) or not key or key.startswith("$") or "." in key or "\x00" in key:
            raise WriteRefusedError(f"{failure}: the key {str(key)[:40]!r} is not the name of a field")
        if key not in own and key != "_id":
            yield key, value
        elif value is not None and (key not in own or value != own[key]):
            raise WriteRefusedError(f"{failure}: {key} identifies the document or its owner, and cannot be set")


def _copy_values(values: dict[str, Any], failure: str) -> dict[str, Any]:
    """Copies values, since a tool's thread may change the live ones during the write."""
    try:
        return copy.deepcopy(values)
    except Exception as error:  # noqa: BLE001 -- a context may hold any object of a tool, and copying it may raise anything
        raise WriteRefusedError(f"{failure}: it holds an object that is not data ({type(error).__name__})") from None
