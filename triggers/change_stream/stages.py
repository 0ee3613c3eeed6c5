"""The stages of a trigger's own pipeline, as the server gets them: what we go on from is kept through all of them."""

from collections.abc import Mapping, Sequence
from typing import Any

from workflows.package.trigger_specs.change import KEPT_FIELDS

Stage = Mapping[str, Any]

# How a stream ends when its database is dropped. Unseen, there would be no position to go on from.
THE_END: Stage = {"operationType": "invalidate"}


def guarded(stages: Sequence[Stage]) -> list[Stage]:
    return [_guarded(*next(iter(stage.items()))) for stage in stages]


def _guarded(name: str, body: Any) -> Stage:
    if name == "$match":
        return {name: {"$or": [body, THE_END]}}
    if name == "$project" and isinstance(body, Mapping) and _names_what_stays(body):
        return {name: {**_without_parts_of_kept(body), **dict.fromkeys(KEPT_FIELDS, 1)}}
    if name == "$replaceRoot" and isinstance(body, Mapping):
        return {name: {**body, "newRoot": _with_kept(body.get("newRoot"))}}
    if name == "$replaceWith":
        return {name: _with_kept(body)}
    return {name: body}


def _names_what_stays(projection: Mapping[str, Any]) -> bool:
    """The server tells the two kinds apart by the same rule: what is neither 0 nor false adds or keeps a field."""
    return any(_keeps(value) for value in projection.values())


def _keeps(value: Any) -> bool:
    if isinstance(value, Mapping):
        operators = [name for name in value if name.startswith("$")]
        return bool(operators) or any(_keeps(inner) for inner in value.values())
    return isinstance(value, str) or bool(value)


def _without_parts_of_kept(projection: Mapping[str, Any]) -> Mapping[str, Any]:
    """`ns.coll: 1` beside `ns: 1` would be a collision of paths."""
    return {name: value for name, value in projection.items() if name.partition(".")[0] not in KEPT_FIELDS}


def _with_kept(root: Any) -> Stage:
    return {"$mergeObjects": [root, {name: f"${name}" for name in KEPT_FIELDS}]}
