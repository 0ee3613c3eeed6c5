"""Stream plans: the streams for all triggers, with the filter and options of each.

A stream covers a database, so that many triggers share one cursor, and no drop or rename of a collection ends it. Our
filter uses names only. A trigger's own pipeline follows it, on a separate stream.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from triggers.change_stream.watched_triggers import ChangeTrigger
from triggers.register.trigger import Trigger
from workers.store.reserved_collections import RESERVED_COLLECTIONS
from workflows.package.trigger_specs.change_spec import PROTECTED_FIELDS, ChangeSpec
from workflows.package.trigger_specs.run_finished_spec import RunFinishedSpec

Stage = Mapping[str, Any]

# The event that ends a stream when its database is dropped. Without it there would be no position to resume from.
MATCH_INVALIDATE: Stage = {"operationType": "invalidate"}


@dataclass(frozen=True, slots=True)
class StreamPlan:
    id: str
    database: str
    triggers: tuple[Trigger, ...]
    stages: tuple[Stage, ...]
    full_document: str | None = None
    pre_image: str | None = None
    resume_now: bool = False  # after a lost history
    own_pipeline: bool = False  # written by the trigger's author, so the server may refuse it
    since: Mapping[str, datetime] = field(default_factory=dict)  # creation times of runtime triggers, by id


def group_by_stream(
    change_triggers: Iterable[ChangeTrigger], *, own_database: str
) -> Mapping[str, tuple[ChangeTrigger, ...]]:
    streams: dict[str, tuple[ChangeTrigger, ...]] = {}
    for change_trigger in change_triggers:
        stream = stream_id_of(change_trigger.trigger, own_database=own_database)
        if stream is not None:
            streams[stream] = (*streams.get(stream, ()), change_trigger)
    return streams


def plan_stream(stream: str, change_triggers: Sequence[ChangeTrigger], *, own_database: str) -> StreamPlan:
    """Plans one stream. Its triggers need the same options, so the first one decides."""
    spec = change_triggers[0].spec
    return StreamPlan(
        id=stream,
        database=spec.database,
        triggers=tuple(change_trigger.trigger for change_trigger in change_triggers),
        stages=(match_stage(change_triggers, own_database=own_database), *guard_stages(spec.pipeline)),
        full_document=_full_document_option(change_triggers),
        pre_image=None if spec.pre_image == "off" else "whenAvailable",
        resume_now=all(change_trigger.spec.on_history_lost == "resume_now" for change_trigger in change_triggers),
        own_pipeline=bool(spec.pipeline),
        since={
            change_trigger.id: change_trigger.since
            for change_trigger in change_triggers
            if change_trigger.since is not None
        },
    )


def match_stage(change_triggers: Sequence[ChangeTrigger], *, own_database: str) -> Stage:
    """Builds the filter, which the server evaluates for each write to the database.

    With many triggers, a list of names is faster than a list of conditions.
    """
    operations_in: dict[str | None, set[str]] = {}
    for change_trigger in change_triggers:
        operations_in.setdefault(change_trigger.spec.collection, set()).update(change_trigger.spec.operations)
    collections: dict[tuple[str, ...], list[str | None]] = {}
    for collection, operations in sorted(operations_in.items(), key=lambda entry: entry[0] or ""):
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
    return {"ns.coll": {"$nin": sorted(RESERVED_COLLECTIONS)}} if is_ours else {}


def _full_document_option(change_triggers: Sequence[ChangeTrigger]) -> str | None:
    """Requests the full document where needed: an update event has only the changes."""
    option = change_triggers[0].spec.full_document
    if option == "update_lookup":
        return (
            "updateLookup"
            if any("update" in change_trigger.spec.operations for change_trigger in change_triggers)
            else None
        )
    return None if option == "off" else "whenAvailable"


def stream_id_of(trigger: Trigger, *, own_database: str) -> str | None:
    """Returns the id of a trigger's stream; None for kinds without one.

    It stays the same while the stream's triggers change. Most triggers on the database `shop` share the stream `shop`;
    other document options (`shop/full_document=off`) or a pipeline (`shop/Orders/paid`) need one of their own.
    `unattended.runs` has the ends of runs.
    """
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
    """Returns the database of a stream id: its name has neither dots nor slashes."""
    return re.split(r"[./]", stream, maxsplit=1)[0]


def _document_needs(spec: ChangeSpec) -> list[str]:
    """Returns the document options in a stream's id.

    `required` becomes `when_available` and is checked by the intake: on the server, one document without the image
    would end the stream for all triggers.
    """
    documents = {"required": "when_available"}.get(spec.full_document, spec.full_document)
    needs = [] if documents == "update_lookup" else [f"full_document={documents}"]
    return needs if spec.pre_image == "off" else [*needs, "pre_image=when_available"]


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
    """Applies the server's rule: any value but 0 and false keeps a field."""
    return any(_is_inclusive_value(value) for value in projection.values())


def _is_inclusive_value(value: Any) -> bool:
    if isinstance(value, Mapping):
        operators = [name for name in value if name.startswith("$")]
        return bool(operators) or any(_is_inclusive_value(inner) for inner in value.values())
    return isinstance(value, str) or bool(value)


def _drop_kept_subpaths(projection: Mapping[str, Any]) -> Mapping[str, Any]:
    """Drops `ns.coll` and the like, which would collide with `ns: 1`."""
    return {name: value for name, value in projection.items() if name.partition(".")[0] not in PROTECTED_FIELDS}


def _merge_kept_fields(root: Any) -> Stage:
    return {"$mergeObjects": [root, {name: f"${name}" for name in PROTECTED_FIELDS}]}
