"""Query templates: run facts enter as scalars, never as operators; each stays in its app."""

import re
from collections.abc import Mapping
from typing import Any

from bson import ObjectId
from bson.errors import InvalidId

_NAME = r"\s*(?:runtime\.)?([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)\s*"
PLACEHOLDER = re.compile(rf"\{{\{{{_NAME}\}}\}}|\$\{{{_NAME}\}}", re.ASCII)
TENANT_NAMES = frozenset({"app_id", "enterprise_id"})
_OBJECT_ID_FIELDS = TENANT_NAMES | {"_id"}
# Absent or null. A list may hold null beside an owner, and `None` alone would match it.
_NO_OWNER: Mapping[str, Any] = {"$eq": None, "$not": {"$type": "array"}}
_SERVER_DATABASES = frozenset({"admin", "local", "config"})
# JavaScript that would run on the database server, with its rights.
SERVER_CODE = frozenset({"$where", "$function", "$accumulator"})
# Below these stands an expression, a pattern or a schema: a text such as "$card" is not data there.
_NON_DATA_OPERATORS = SERVER_CODE | {"$expr", "$regex", "$options", "$jsonSchema"}


class QueryError(ValueError):
    """A run cannot fill a template; the text names the placeholder."""


def find_placeholders(template: Any) -> set[str]:
    """Returns the facts that a template needs: for `{{order.id}}` it is order."""
    if isinstance(template, str):
        return {(match[1] or match[2]).partition(".")[0] for match in PLACEHOLDER.finditer(template)}
    if isinstance(template, Mapping):
        return set().union(*(find_placeholders(value) for value in template.values()), set())
    if isinstance(template, list):
        return set().union(*(find_placeholders(value) for value in template), set())
    return set()


def fill_query(template: Mapping[str, Any], facts: Mapping[str, Any]) -> dict[str, Any]:
    filled: dict[str, Any] = fill_value(template, facts)
    for name in _OBJECT_ID_FIELDS & filled.keys():
        filled[name] = id_condition(filled[name])
    return filled


def fill_value(value: Any, facts: Mapping[str, Any], *, operator: str | None = None) -> Any:
    """Fills one value of a query, as plain data. Raises QueryError when that is impossible.

    `operator` is the one above that does not take data."""
    if isinstance(value, str):
        return _fill_text(value, facts, operator=operator)
    if isinstance(value, Mapping):
        return {
            _check_key(key): fill_value(item, facts, operator=key if key in _NON_DATA_OPERATORS else operator)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [fill_value(item, facts, operator=operator) for item in value]
    return value


def _check_key(key: Any) -> Any:
    """Refuses a placeholder in a key: a filled key could be an operator."""
    if find_placeholders(key):
        raise QueryError(f"the key {key!r} holds a placeholder; only values are filled")
    return key


def _fill_text(text: str, facts: Mapping[str, Any], *, operator: str | None) -> Any:
    if operator is not None and (names := find_placeholders(text)):
        raise QueryError(
            f"{', '.join(sorted(names))} stands inside {operator}, where it would not be read as plain data; "
            "compare a field with it instead"
        )
    whole = PLACEHOLDER.fullmatch(text)
    if whole:  # a lone placeholder keeps the fact's type
        return _scalar_fact(whole[1] or whole[2], facts)
    return PLACEHOLDER.sub(lambda match: str(_scalar_fact(match[1] or match[2], facts)), text)


def look_up_fact(name: str, facts: Mapping[str, Any]) -> Any:
    """Follows `order.id` to the key id of the mapping order; None if missing."""
    value: Any = facts
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _scalar_fact(name: str, facts: Mapping[str, Any]) -> Any:
    value = look_up_fact(name, facts)
    if value is None:
        raise QueryError(f"{name} has no value in this run")
    # A mapping such as {"$ne": null} from a payload would be an operator.
    if not isinstance(value, str | int | float | bool):
        raise QueryError(f"{name} is not a scalar, and only scalars may enter a query")
    return value


def id_condition(value: Any) -> Any:
    """Matches a text id and the object id it may stand for, as payloads carry text."""
    if not isinstance(value, str):
        return value
    both = _text_and_id(value)
    return {"$in": both} if len(both) > 1 else value


def _text_and_id(text: str) -> list[Any]:
    try:
        return [text, ObjectId(text)]
    except InvalidId:
        return [text]


def tenant_scope(app_id: str) -> dict[str, Any]:
    """Selects what this app may read: its own documents, and those without an owner.

    `app_id` decides, and where a document has none, its older name `enterprise_id`."""
    return {"$or": [*owner_scope(app_id)["$or"], {"app_id": _NO_OWNER, "enterprise_id": _NO_OWNER}]}


def owner_scope(app_id: str) -> dict[str, Any]:
    """Selects what this app may write: its own documents only.

    All apps may read a document without an owner, so all would see a write to it."""
    own = _text_and_id(app_id)
    return {"$or": [{"app_id": {"$in": own}}, {"app_id": _NO_OWNER, "enterprise_id": {"$in": own}}]}


def is_system_collection(database: str, collection: str) -> bool:
    """Detects the server's own data: accounts, the oplog, the cluster's layout."""
    return database.lower() in _SERVER_DATABASES or collection.startswith("system.")


def find_server_code(query: Any) -> str | None:
    """Returns the first operator in a query that would run code on the server."""
    if isinstance(query, Mapping):
        named = next((key for key in query if key in SERVER_CODE), None)
        return named or next(filter(None, map(find_server_code, query.values())), None)
    if isinstance(query, list | tuple):
        return next(filter(None, map(find_server_code, query)), None)
    return None
