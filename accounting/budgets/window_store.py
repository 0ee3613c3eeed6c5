"""The store of windows: collection `budget_windows`, one document for each window of a budget, and app.

A document says what was spent before anybody reserved in it (`base`), what those have spent who have left it
(`folded`), and of each process that is in it (`holders`) what it has spent, holds reserved, and until when that holds.

A process sends its own numbers as they are, never how much they grew: a command whose answer got lost is sent again and
changes nothing. `n` grows with each of its commands, so that one which was delayed on its way comes too late. An entry
whose time is over is its process's no more: it is summed up from the ledger (see `mending`), and the process, should it
only have slept, finds itself refused and comes back under another name.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pymongo
from pymongo import ASCENDING, IndexModel, ReturnDocument, UpdateOne
from pymongo.asynchronous.database import AsyncDatabase

from accounting.budgets.places import Place
from accounting.totals.reading import Wanted, usage_totals
from accounting.usage import UsageTotals

Document = dict[str, Any]

COLLECTION = "budget_windows"
HELD_FOR_S = 60
STORE_WITHIN_S = 5.0  # a command that takes longer is not waited for, and not carried out later

INDEXES = (
    # The windows of a budget, the present one first.
    IndexModel([("budget_id", ASCENDING), ("start", -1)], name="by_budget"),
    # Those that some process is in, or was in when it died.
    IndexModel([("is_held", ASCENDING)], name="by_holders", partialFilterExpression={"is_held": True}),
    # Those whose base may still change: calls that began before the budget are still going on.
    IndexModel([("is_young", ASCENDING)], name="by_youth", partialFilterExpression={"is_young": True}),
    IndexModel([("end", ASCENDING)], name="by_end"),
)

_ENTRIES: Document = {"$objectToArray": {"$ifNull": ["$holders", {}]}}


def _sum_of(entries: Any, value: Any) -> Document:
    return {"$sum": {"$map": {"input": entries, "as": "each", "in": value}}}


_LIVE_RESERVED: Document = {"$cond": [{"$gt": ["$$each.v.until", "$$NOW"]}, "$$each.v.reserved", 0]}
SPENT: Document = {"$add": ["$base", "$folded", _sum_of(_ENTRIES, "$$each.v.spent")]}
RESERVED: Document = _sum_of(_ENTRIES, _LIVE_RESERVED)


@dataclass(frozen=True, slots=True)
class Part:
    """What one process has in a window. `is_new`: the store has confirmed nothing of it yet."""

    holder: str
    n: int
    spent: int
    reserved: int
    since: datetime
    is_new: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """`is_ours`: the part is still this process's to write. Of what was asked for, the first `granted` got room."""

    is_ours: bool
    spent: int
    reserved: int
    granted: int


@dataclass(frozen=True, slots=True)
class Used:
    spent: int = 0
    reserved: int = 0

    def has_room(self, limit: int) -> bool:
        """For somebody who has not begun yet. What is reserved may be left over, which is seen when it is settled."""
        return self.spent + self.reserved < limit


class WindowStore:
    def __init__(self, database: AsyncDatabase[Document]) -> None:
        self._database = database
        self._windows = database[COLLECTION]

    async def ensure_indexes(self) -> None:
        await self._windows.create_indexes(list(INDEXES))

    async def open(self, place: Place) -> None:
        """Of a window in which something was spent before: that is looked up once, by whoever is first."""
        if await self._windows.find_one({"_id": place.id}, {"_id": 1}) is not None:
            return
        spent = await recorded_before(self._database, place.labels())
        new = {**place.labels(), "base": spent, "folded": 0, "holders": {}, "is_young": True}
        await self._windows.update_one({"_id": place.id}, {"$setOnInsert": new}, upsert=True)

    async def send(self, place: Place, part: Part, asked: Sequence[int] = (), *, limit: int | None = None) -> Answer:
        """The numbers of this process, and what it wants to reserve beside them; `limit` None takes whatever comes."""
        with pymongo.timeout(STORE_WITHIN_S):
            after: Any = await self._windows.find_one_and_update(
                {"_id": place.id},
                _command(place, part, asked, limit),
                {"answer": 1},
                upsert=True,
                return_document=ReturnDocument.AFTER,
            )
        answer = after["answer"]
        return Answer(answer["is_ours"], int(answer["spent"]), int(answer["reserved"]), answer["granted"])

    async def leave(self, place: Place, part: Part) -> None:
        """What this process has spent stays; of its entry nothing does. Once, however often it is sent."""
        entry = f"holders.{part.holder}"
        ours = {"_id": place.id, f"{entry}.n": part.n, "$expr": {"$gt": [f"${entry}.until", "$$NOW"]}}
        left: list[Mapping[str, Any]] = [
            {"$set": {"folded": {"$add": ["$folded", part.spent]}}},
            {"$unset": entry},
            STILL_HELD,
        ]
        with pymongo.timeout(STORE_WITHIN_S):
            await self._windows.update_one(ours, left)

    async def used(self, places: Sequence[Place]) -> Mapping[str, Used]:
        """By the places' ids."""
        found = await self._found(places)
        unopened = [place for place in places if place.spent_before and place.id not in found]
        for place in unopened:
            await self.open(place)
        more = await self._found(unopened) if unopened else {}
        return {place.id: more.get(place.id) or found.get(place.id) or Used() for place in places}

    async def _found(self, places: Sequence[Place]) -> Mapping[str, Used]:
        asked: list[Mapping[str, Any]] = [
            {"$match": {"_id": {"$in": [place.id for place in places]}}},
            {"$project": {"spent": SPENT, "reserved": RESERVED}},
        ]
        with pymongo.timeout(STORE_WITHIN_S):
            found = await self._windows.aggregate(asked)
            return {row["_id"]: Used(int(row["spent"]), int(row["reserved"])) async for row in found}

    async def say_once(self, place: Place, what: str) -> bool:
        """Whether nobody has said this of the window and its limit."""
        limit = place.budget.limit
        unsaid = {"_id": place.id, f"said.{what}.limit": {"$ne": limit}}
        said = [{"$set": {f"said.{what}": {"limit": limit, "at": "$$NOW"}}}]
        return (await self._windows.update_one(unsaid, said)).modified_count == 1

    async def add_rejections(self, rejected: Sequence[tuple[Place, int]]) -> None:
        """Of the window; and of all time, in a document that stays when the window is deleted."""
        changes = [
            UpdateOne({"_id": each}, {"$inc": {"rejections": count}}, upsert=each != place.id)
            for place, count in rejected
            for each in (place.id, ever_id(place.budget.id, place.app_id))
        ]
        await self._windows.bulk_write(changes, ordered=False)


STILL_HELD: Mapping[str, Any] = {"$set": {"is_held": {"$cond": [{"$eq": ["$holders", {}]}, "$$REMOVE", True]}}}


def ever_id(budget_id: str, app_id: str | None) -> str:
    """The document of what is counted for all time; a space is in no part of another id where this one has it."""
    return f"ever {budget_id} {'' if app_id is None else app_id}"


def _command(place: Place, part: Part, asked: Sequence[int], limit: int | None) -> list[Mapping[str, Any]]:
    entry = f"holders.{part.holder}"
    number = {
        "spent": part.spent,
        "reserved": {"$add": [part.reserved, "$answer.sum"]},
        "until": {"$add": ["$$NOW", HELD_FOR_S * 1000]},
        "since": part.since,
        "n": part.n,
    }
    is_there: Document = {
        name: {"$ifNull": [f"${name}", value]} for name, value in (("base", 0), ("folded", 0), ("holders", {}))
    }
    return [
        {"$set": {**{name: {"$literal": value} for name, value in place.labels().items()}, **is_there}},
        {"$set": {"answer": _answer(part, asked, limit)}},
        {"$set": {entry: {"$cond": ["$answer.is_ours", number, {"$ifNull": [f"${entry}", "$$REMOVE"]}]}}},
        STILL_HELD,
    ]


def _answer(part: Part, asked: Sequence[int], limit: int | None) -> Document:
    entry = f"$holders.{part.holder}"
    others = {"$filter": {"input": _ENTRIES, "as": "each", "cond": {"$ne": ["$$each.k", part.holder]}}}
    goes_on = {"$and": [{"$gt": [f"{entry}.until", "$$NOW"]}, {"$lt": [f"{entry}.n", part.n]}]}
    is_ours = {"$cond": [{"$eq": [{"$type": entry}, "missing"]}, part.is_new, goes_on]}
    own = {"$cond": ["$$is_ours", part.spent, {"$ifNull": [f"{entry}.spent", 0]}]}
    spent = {"$add": ["$base", "$folded", _sum_of("$$others", "$$each.v.spent"), own]}
    reserved = {"$add": [_sum_of("$$others", _LIVE_RESERVED), {"$cond": ["$$is_ours", part.reserved, 0]}]}
    answer = {
        "is_ours": "$$is_ours",
        "spent": "$$spent",
        "reserved": {"$add": ["$$reserved", "$$got.sum"]},
        "sum": "$$got.sum",
        "granted": "$$got.count",
    }
    got = {"$let": {"vars": {"got": _granted(asked, limit)}, "in": answer}}
    sums = {"$let": {"vars": {"spent": spent, "reserved": reserved}, "in": got}}
    return {"$let": {"vars": {"is_ours": is_ours, "others": others}, "in": sums}}


def _granted(asked: Sequence[int], limit: int | None) -> Document:
    """As many as fit, in their order: one that does not is not overtaken. One that is alone need not fit, as long as
    anything is left: else what is left could never be spent, and nobody would know that it is too little."""
    fits: Any = True
    if limit is not None:
        taken = {"$add": ["$$reserved", "$$value.sum"]}
        alone = {"$and": [{"$eq": [taken, 0]}, {"$lt": ["$$spent", limit]}]}
        fits = {"$or": [{"$lte": [{"$add": ["$$spent", taken, "$$this"]}, limit]}, alone]}
    more = {"sum": {"$add": ["$$value.sum", "$$this"]}, "count": {"$add": ["$$value.count", 1]}, "open": True}
    closed = {"$mergeObjects": ["$$value", {"open": False}]}
    step = {"$cond": [{"$and": ["$$is_ours", "$$value.open", fits]}, more, closed]}
    return {"$reduce": {"input": list(asked), "initialValue": {"sum": 0, "count": 0, "open": True}, "in": step}}


async def recorded_before(database: AsyncDatabase[Document], labels: Mapping[str, Any]) -> int:
    """In the window, by calls that began before its budget counted."""
    start = labels["start"]
    wanted = Wanted(
        app_id=labels["app_id"],
        workflow=labels["workflow"],
        since=start if labels["end"] is not None else None,
        until=labels["since"],
    )
    return sum(amount_of(each, labels["unit"]) for each in await usage_totals(database, [], wanted))


def amount_of(totals: UsageTotals, unit: str) -> int:
    return totals.cost_nano_usd if unit == "usd" else totals.input_tokens + totals.output_tokens
