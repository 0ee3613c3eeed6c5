"""Triggers, as operators look at them: which are paused and why, how many were made at run time, and whether schedules
fire in time. Those of packages stand in files, and are only in the store when there is something to say of them."""

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
class TriggerState:
    """`paused` counts pauses, of whole triggers and of single apps of a package's one. `overdue_s`: for how long the
    schedule that should have fired first has been due."""

    paused: Mapping[str, int] = field(default_factory=dict)
    made_at_run_time: Mapping[str, int] = field(default_factory=dict)
    overdue_s: float = 0.0


async def read_trigger_state(database: AsyncDatabase[Document]) -> TriggerState:
    paused = Counter(dict.fromkeys(PAUSE_REASONS, 0))
    for pipeline in paused_pipelines():
        paused.update(await _count_by_key(database, pipeline))
    made = Counter(dict.fromkeys(TRIGGER_TYPES, 0))
    made.update(await _count_by_key(database, made_pipeline()))
    due = await database["triggers"].aggregate(overdue_pipeline())
    overdue_ms = sum([row["overdue_ms"] async for row in due])
    return TriggerState(
        paused={reason: paused[reason] for reason in PAUSE_REASONS},
        made_at_run_time={kind: made[kind] for kind in TRIGGER_TYPES},
        overdue_s=overdue_ms / 1000,
    )


async def _count_by_key(database: AsyncDatabase[Document], pipeline: list[Document]) -> dict[Any, int]:
    return {row["_id"]: row["count"] async for row in await database["triggers"].aggregate(pipeline)}


# Each asks for what an index holds, which is what is paused, made or due, and no more.


def paused_pipelines() -> list[list[Document]]:
    by = {"$sum": 1}
    return [
        [{"$match": {"paused.reason": {"$in": PAUSE_REASONS}}}, {"$group": {"_id": "$paused.reason", "count": by}}],
        [
            {"$match": {"type": {"$gt": ""}, "paused_apps": {"$exists": True}}},
            {"$project": {"each": {"$objectToArray": "$paused_apps"}}},
            {"$unwind": "$each"},
            {"$group": {"_id": "$each.v.pause.reason", "count": by}},
        ],
    ]


def made_pipeline() -> list[Document]:
    return [{"$match": {"spec.type": {"$gt": ""}}}, {"$group": {"_id": "$spec.type", "count": {"$sum": 1}}}]


def overdue_pipeline() -> list[Document]:
    """By the database's clock. Without a bound, the index of next times would not be used."""
    age = {"$max": [{"$subtract": ["$$NOW", "$schedule.next_at"]}, 0]}
    return [
        {"$match": {"schedule.next_at": {"$type": "date"}}},
        {"$sort": {"schedule.next_at": 1}},
        {"$limit": 1},
        {"$project": {"overdue_ms": age}},
    ]
