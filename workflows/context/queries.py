"""Query templates: run facts and declared inputs go into a MongoDB query as scalars, never as operators."""

import re
from collections.abc import Mapping
from typing import Any

from bson import ObjectId
from bson.errors import InvalidId

_PLACEHOLDER = re.compile(r"\{\{\s*(?:runtime\.)?([A-Za-z_][A-Za-z0-9_]*)\s*\}\}|\$\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}")
TENANT_NAMES = frozenset({"app_id", "enterprise_id"})


class QueryError(ValueError):
    """A template that this run cannot fill; the text names the placeholder."""


def placeholders(template: Any) -> set[str]:
    if isinstance(template, str):
        return {match[1] or match[2] for match in _PLACEHOLDER.finditer(template)}
    if isinstance(template, Mapping):
        return set().union(*(placeholders(value) for value in template.values()), set())
    if isinstance(template, list):
        return set().union(*(placeholders(value) for value in template), set())
    return set()


def fill_query(template: Mapping[str, Any], facts: Mapping[str, Any]) -> dict[str, Any]:
    filled = {key: _fill(value, facts) for key, value in template.items()}
    if "_id" in filled:
        filled["_id"] = _id_condition(filled["_id"])
    return filled


def _fill(value: Any, facts: Mapping[str, Any]) -> Any:
    if isinstance(value, str):
        return _fill_text(value, facts)
    if isinstance(value, Mapping):
        return {key: _fill(item, facts) for key, item in value.items()}
    if isinstance(value, list):
        return [_fill(item, facts) for item in value]
    return value


def _fill_text(text: str, facts: Mapping[str, Any]) -> Any:
    whole = _PLACEHOLDER.fullmatch(text)
    if whole:  # the value keeps its type
        return _scalar(whole[1] or whole[2], facts)
    return _PLACEHOLDER.sub(lambda match: str(_scalar(match[1] or match[2], facts)), text)


def _scalar(name: str, facts: Mapping[str, Any]) -> Any:
    value = facts.get(name)
    if value is None:
        raise QueryError(f"{name} has no value in this run")
    # A mapping such as {"$ne": null} from a payload would be an operator.
    if not isinstance(value, str | int | float | bool):
        raise QueryError(f"{name} is not a scalar, and only scalars may enter a query")
    return value


def _id_condition(value: Any) -> Any:
    """Payloads carry object ids as text: match the text and the id it may stand for."""
    if not isinstance(value, str):
        return value
    try:
        return {"$in": [value, ObjectId(value)]}
    except InvalidId:
        return value
