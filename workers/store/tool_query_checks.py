"""Queries of tools: copied as plain data, and kept within their database.

The copy is both checked and sent, so that both see the same query.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from workflows.compat.databases import DatabaseNotAllowedError
from workflows.context.documents.query_templates import find_server_code, is_system_collection

MAX_DEPTH = 100
# Stages that read or write documents of collections. Others show the server, other databases, or internals.
STAGES = frozenset(
    {
        "$addFields",
        "$bucket",
        "$bucketAuto",
        "$count",
        "$densify",
        "$documents",
        "$facet",
        "$fill",
        "$geoNear",
        "$graphLookup",
        "$group",
        "$limit",
        "$lookup",
        "$match",
        "$merge",
        "$out",
        "$project",
        "$redact",
        "$replaceRoot",
        "$replaceWith",
        "$sample",
        "$set",
        "$setWindowFields",
        "$skip",
        "$sort",
        "$sortByCount",
        "$unionWith",
        "$unset",
        "$unwind",
    }
)
# The key of a stage that holds the collection to read or write, if the stage is more than its name.
_COLLECTIONS = {"$graphLookup": "from", "$lookup": "from", "$merge": "into", "$out": None, "$unionWith": "coll"}
_MAY_HAVE_NONE = ("$lookup", "$unionWith")  # documents that the pipeline itself contains


def copy_query(value: Any, *, depth: int = 0) -> Any:
    """Copies mappings as dicts, sequences as lists, texts as texts, whatever their classes; other values stay."""
    if depth > MAX_DEPTH:
        raise DatabaseNotAllowedError(f"a query has more than {MAX_DEPTH} levels; write it flatter")
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, Mapping):
        return {_key(key): copy_query(item, depth=depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [copy_query(item, depth=depth + 1) for item in value]
    if hasattr(value, "_type_marker") and not type(value).__module__.startswith("bson."):
        raise DatabaseNotAllowedError(f"{type(value).__name__} encodes itself; give plain data")
    return value


def _key(key: Any) -> Any:
    return str.__str__(key) if isinstance(key, str) else key


def check_query(value: Any) -> None:
    """Raises DatabaseNotAllowedError for code that would run on the database server."""
    if operator := find_server_code(value):
        raise DatabaseNotAllowedError(f"{operator} runs code on the database server, which no query of a tool may")


def check_pipeline(stages: Any, *, database: str) -> None:
    """Raises DatabaseNotAllowedError for a stage that leaves the database; `stages` is a plain copy."""
    if not isinstance(stages, list):
        raise DatabaseNotAllowedError("a pipeline is a list of stages")
    for stage in stages:
        if not isinstance(stage, dict) or len(stage) != 1:
            raise DatabaseNotAllowedError("a stage of a pipeline is a mapping with one operator")
        ((operator, body),) = stage.items()
        if operator not in STAGES:
            raise DatabaseNotAllowedError(f"{operator} is not one of the stages that tools may use")
        if operator in _COLLECTIONS:
            _check_place(operator, body, database)
        for inner in _inner_pipelines(operator, body):
            check_pipeline(inner, database=database)


def _check_place(operator: str, body: Any, database: str) -> None:
    """Refuses `{db, coll}` instead of a name, with which a stage leaves its database."""
    key, place = _COLLECTIONS[operator], body
    if isinstance(body, dict) and key is not None and "db" not in body:
        place = body.get(key)
    if place is None and operator in _MAY_HAVE_NONE:
        return
    if not isinstance(place, str):
        raise DatabaseNotAllowedError(f"{operator} must name its collection as text: it may not leave {database}")
    check_collection(database, place)


def _inner_pipelines(operator: str, body: Any) -> Sequence[Any]:
    if not isinstance(body, dict):
        return ()
    if operator == "$facet":
        return list(body.values())
    return [body["pipeline"]] if operator in ("$lookup", "$unionWith") and "pipeline" in body else ()


def check_collection(database: str, collection: Any) -> None:
    """Raises DatabaseNotAllowedError for an invalid name, or for one of the server's collections."""
    if type(collection) is not str or not collection or "$" in collection or is_system_collection(database, collection):
        raise DatabaseNotAllowedError(f"{collection!r} is not the name of a collection that tools may use")
