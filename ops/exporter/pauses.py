"""Pauses of triggers, counted by their reason: of a whole trigger, and of a single app of a package's one."""

from collections import Counter
from collections.abc import Mapping
from typing import Any, get_args

from pymongo.asynchronous.database import AsyncDatabase

from triggers.register.record import PauseReason

REASONS: tuple[PauseReason, ...] = get_args(PauseReason)


async def count_pauses(database: AsyncDatabase[dict[str, Any]]) -> Mapping[str, int]:
    counts: Counter[str] = Counter(dict.fromkeys(REASONS, 0))
    for pipeline in pipelines():
        async for row in await database["triggers"].aggregate(pipeline):
            if row["_id"] in REASONS:
                counts[row["_id"]] += row["count"]
    return counts


def pipelines() -> list[list[dict[str, Any]]]:
    """Each asks for what its index holds, which is what is paused and no more."""
    by = {"$sum": 1}
    return [
        [{"$match": {"paused.reason": {"$in": REASONS}}}, {"$group": {"_id": "$paused.reason", "count": by}}],
        [
            {"$match": {"type": {"$gt": ""}, "paused_apps": {"$exists": True}}},
            {"$project": {"each": {"$objectToArray": "$paused_apps"}}},
            {"$unwind": "$each"},
            {"$group": {"_id": "$each.v.pause.reason", "count": by}},
        ],
    ]
