"""Plans: which streams are read for the triggers there are, and what each asks the server for.

A stream covers a database, not a collection: dropping or renaming a collection ends a collection's stream, and many
triggers share one cursor. Our own filter is built from names alone; a trigger's own pipeline comes behind it, on a
stream of its own.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from triggers.change_stream.watched_triggers import ChangeTrigger
from triggers.register.trigger import Trigger
from workers.store.own_collections import OWN_COLLECTIONS
from workflows.package.trigger_specs.change_spec import PROTECTED_FIELDS, ChangeSpec
from workflows.package.trigger_specs.run_finished_spec import RunFinishedSpec

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


@dataclass(frozen=True, slots=True)
class StreamPlan:
    id: str
    database: str
    triggers: tuple[Trigger, ...]
    stages: tuple[Stage, ...]
    full_document: str | None = None
    pre_image: str | None = None
    resume_now: bool = False  # when its history is lost
    own_pipeline: bool = False  # written by the author of its one trigger: the server may refuse it
    since: Mapping[str, datetime] = field(default_factory=dict)  # triggers that were made at run time, by id


def group_by_stream(
    change_triggers: Iterable[ChangeTrigger], *, own_database: str
) -> Mapping[str, tuple[ChangeTrigger, ...]]:
    streams: dict[str, tuple[ChangeTrigger, ...]] = {}
    for watch in change_triggers:
        stream = stream_id_of(watch.trigger, own_database=own_database)
        if stream is not None:
            streams[stream] = (*streams.get(stream, ()), watch)
    return streams


def plan_stream(stream: str, change_triggers: Sequence[ChangeTrigger], *, own_database: str) -> StreamPlan:
    """Watches of one stream have the same needs, so the first one speaks for all."""
    spec = change_triggers[0].spec
    return StreamPlan(
        id=stream,
        database=spec.database,
        triggers=tuple(watch.trigger for watch in change_triggers),
        stages=(match_stage(change_triggers, own_database=own_database), *guard_stages(spec.pipeline)),
        full_document=_full_document_option(change_triggers),
        pre_image=None if spec.pre_image == "off" else "whenAvailable",
        resume_now=all(watch.spec.on_history_lost == "resume_now" for watch in change_triggers),
        own_pipeline=bool(spec.pipeline),
        since={watch.id: watch.since for watch in change_triggers if watch.since is not None},
    )


def match_stage(change_triggers: Sequence[ChangeTrigger], *, own_database: str) -> Stage:
    """The server looks at it for each write to the database: with many triggers a list of names is found in at once,
    where a list of conditions would be gone through."""
    operations_in: dict[str | None, set[str]] = {}
    for watch in change_triggers:
        operations_in.setdefault(watch.spec.collection, set()).update(watch.spec.operations)
    collections: dict[tuple[str, ...], list[str | None]] = {}
    for collection, operations in sorted(operations_in.items(), key=lambda each: each[0] or ""):
        collections.setdefault(tuple(sorted(operations)), []).append(collection)
    is_ours = change_triggers[0].spec.database == own_database
    changes = [
        {**_collection_filter(names, is_ours), "operationType": {"$in": [*operations]}}
        for operations, names in collections.items()
    ]
    return {"$match": {"$or": [*changes, MATCH_INVALIDATE]}}


def _collection_filter(collections: Sequence[str | None], is_ours: bool) -> Stage:
    if None not in collections:
        return {"ns.coll": {"$in": [*collections]}}
    return {"ns.coll": {"$nin": sorted(OWN_COLLECTIONS)}} if is_ours else {}


def _full_document_option(change_triggers: Sequence[ChangeTrigger]) -> str | None:
    """An update event alone carries only what changed."""
    wanted = change_triggers[0].spec.full_document
    if wanted == "update_lookup":
        return "updateLookup" if any("update" in watch.spec.operations for watch in change_triggers) else None
    return None if wanted == "off" else "whenAvailable"


def stream_id_of(trigger: Trigger, *, own_database: str) -> str | None:
    """None for kinds that no stream brings anything."""
    if isinstance(trigger.spec, RunFinishedSpec):
        return ended_runs_stream_id(own_database)
    if not isinstance(trigger.spec, ChangeSpec):
        return None
    spec = trigger.spec
    if spec.pipeline:
        return f"{spec.database}/{trigger.id}"
    return "/".join((spec.database, *_document_needs(spec)))


def ended_runs_stream_id(own_database: str) -> str:
    return f"{own_database}.runs"


def stream_database(stream: str) -> str:
    return re.split(r"[./]", stream, maxsplit=1)[0]


def _document_needs(spec: ChangeSpec) -> list[str]:
    """`required` is asked for as `when_available`, and looked at here: on the server one document without it would
    end the stream for everybody."""
    documents = {"required": "when_available"}.get(spec.full_document, spec.full_document)
    needs = [] if documents == "update_lookup" else [f"full_document={documents}"]
    return needs if spec.pre_image == "off" else [*needs, "pre_image=when_available"]
