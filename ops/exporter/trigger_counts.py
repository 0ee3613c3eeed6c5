"""Counts of triggers for the exporter: pauses, triggers created at run time, and overdue schedules.

A package's trigger has a document in the store only after something was recorded about it.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

from pymongo.asynchronous.database import AsyncDatabase

from triggers.register.trigger_record import PauseReason
from workflows.package.trigger_specs.trigger_spec import TRIGGER_TYPES

Document = dict[str, Any]

PAUSE_REASONS: tuple[PauseReason, ...] = get_args(PauseReason)


@dataclass(frozen=True, slots=True)
class TriggerCounts:
    """`paused` counts pauses of whole triggers and of single apps; `overdue_s` is of the most overdue schedule."""

    paused: Mapping[str, int] = field(default_factory=dict)
    created_at_run_time: Mapping[str, int] = field(default_factory=dict)
    overdue_s: float = 0.0


async def read_trigger_counts(database: AsyncDatabase[Document]) -> TriggerCounts:
    paused = Counter(dict.fromkeys(PAUSE_REASONS, 0))
    for pipeline in paused_pipelines():
        paused.update(await _count_by_key(database, pipeline))
    created = Counter(dict.fromkeys(TRIGGER_TYPES, 0))
    created.update(await _count_by_key(database, created_pipeline()))
    overdue = await database["triggers"].aggregate(overdue_pipeline())
    overdue_ms = sum([row["overdue_ms"] async for row in overdue])
    return TriggerCounts(
        paused={reason: paused[reason] for reason in PAUSE_REASONS},
        created_at_run_time={kind: created[kind] for kind in TRIGGER_TYPES},
        overdue_s=overdue_ms / 1000,
    )


async def _count_by_key(database: AsyncDatabase[Document], pipeline: list[Document]) -> dict[Any, int]:
    return {row["_id"]: row["count"] async for row in await database["triggers"].aggregate(pipeline)}


# Each pipeline reads only entries of an index that holds paused, created or due triggers.


def paused_pipelines() -> list[list[Document]]:
    count = {"$sum": 1}
    return [
        [{"$match": {"paused.reason": {"$in": PAUSE_REASONS}}}, {"$group": {"_id": "$paused.reason", "count": count}}],
        [
            {"$match": {"type": {"$gt": ""}, "paused_apps": {"$exists": True}}},
            {"$project": {"each": {"$objectToArray": "$paused_apps"}}},
            {"$unwind": "$each"},
            {"$group": {"_id": "$each.v.pause.reason", "count": count}},
        ],
    ]


def created_pipeline() -> list[Document]:
    return [{"$match": {"spec.type": {"$gt": ""}}}, {"$group": {"_id": "$spec.type", "count": {"$sum": 1}}}]


def overdue_pipeline() -> list[Document]:
    """Compare with the database's clock; the type condition makes MongoDB use the index of next times."""
    age = {"$max": [{"$subtract": ["$$NOW", "$schedule.next_at"]}, 0]}
    return [
        {"$match": {"schedule.next_at": {"$type": "date"}}},
        {"$sort": {"schedule.next_at": 1}},
        {"$limit": 1},
        {"$project": {"overdue_ms": age}},
    ]
