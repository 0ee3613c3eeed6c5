"""The stages of a trigger's own pipeline, as the server gets them: what we go on from is kept through all of them."""

from collections.abc import Mapping, Sequence
from typing import Any

from workflows.package.trigger_specs.change import PROTECTED_FIELDS

Stage = Mapping[str, Any]

# How a stream ends when its database is dropped. Unseen, there would be no position to go on from.
MATCH_INVALIDATE: Stage = {"operationType": "invalidate"}


def guard_stages(stages: Sequence[Stage]) -> list[Stage]:
    return [_guard_stage(*next(iter(stage.items()))) for stage in stages]


def _guard_stage(name: str, body: Any) -> Stage:
    if name == "$match":
        return {name: {"$or": [body, MATCH_INVALIDATE]}}
    if name == "$project" and isinstance(body, Mapping) and _is_inclusive(body):
        return {name: {**_drop_kept_subpaths(body), **dict.fromkeys(PROTECTED_FIELDS, 1)}}
    if name == "$replaceRoot" and isinstance(body, Mapping):
        return {name: {**body, "newRoot": _merge_kept_fields(body.get("newRoot"))}}
    if name == "$replaceWith":
        return {name: _merge_kept_fields(body)}
    return {name: body}


def _is_inclusive(projection: Mapping[str, Any]) -> bool:
    """The server tells the two kinds apart by the same rule: what is neither 0 nor false adds or keeps a field."""
    return any(_is_inclusive_value(value) for value in projection.values())


def _is_inclusive_value(value: Any) -> bool:
    if isinstance(value, Mapping):
        operators = [name for name in value if name.startswith("$")]
        return bool(operators) or any(_is_inclusive_value(inner) for inner in value.values())
    return isinstance(value, str) or bool(value)


def _drop_kept_subpaths(projection: Mapping[str, Any]) -> Mapping[str, Any]:
    """`ns.coll: 1` beside `ns: 1` would be a collision of paths."""
    return {name: value for name, value in projection.items() if name.partition(".")[0] not in PROTECTED_FIELDS}


def _merge_kept_fields(root: Any) -> Stage:
    return {"$mergeObjects": [root, {name: f"${name}" for name in PROTECTED_FIELDS}]}
