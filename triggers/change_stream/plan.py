"""Plans: which streams are read for the triggers there are, and what each asks the server for.

A stream covers a database, not a collection: dropping or renaming a collection ends a collection's stream, and many
triggers share one cursor. Our own filter is built from names alone; a trigger's own pipeline comes behind it, on a
stream of its own.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from triggers.change_stream.stages import MATCH_INVALIDATE, guard_stages
from triggers.change_stream.stream_ids import stream_id_of
from triggers.change_stream.watches import ChangeTrigger
from triggers.register.trigger import Trigger
from workers.store.own_collections import OWN_COLLECTIONS

Stage = Mapping[str, Any]


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


def group_by_stream(change_triggers: Iterable[ChangeTrigger], *, own_database: str) -> Mapping[str, tuple[ChangeTrigger, ...]]:
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
