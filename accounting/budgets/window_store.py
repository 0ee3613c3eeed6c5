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

from accounting.budgets.effective_budgets import BudgetWindow
from accounting.infra.bulk_writer import BulkWriter, collect_bulk_errors
from accounting.totals.usage_query import UsageFilter, usage_totals
from accounting.usage import UsageTotals

COLLECTION = "budget_windows"
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

Document = dict[str, Any]
Pipeline = list[Mapping[str, Any]]

RESERVATION_TTL_S = 60


@dataclass(frozen=True, slots=True)
class ProcessShare:
    """What one process has in a window. `is_new`: the store has confirmed nothing of it yet."""

    holder: str
    command_number: int
    spent: int
    reserved: int
    since: datetime
    is_new: bool


@dataclass(frozen=True, slots=True)
class WindowReply:
    """`is_ours`: the part is still this process's to write. Of what was asked for, the first `granted` got room."""

    is_ours: bool
    spent: int
    reserved: int
    granted: int


_ENTRIES: Document = {"$objectToArray": {"$ifNull": ["$holders", {}]}}


def _sum_expression(entries: Any, value: Any) -> Document:
    return {"$sum": {"$map": {"input": entries, "as": "each", "in": value}}}


_LIVE_RESERVED: Document = {"$cond": [{"$gt": ["$$each.v.until", "$$NOW"]}, "$$each.v.reserved", 0]}
SPENT: Document = {"$add": ["$base", "$folded", _sum_expression(_ENTRIES, "$$each.v.spent")]}
RESERVED: Document = _sum_expression(_ENTRIES, _LIVE_RESERVED)


UPDATE_IS_HELD: Mapping[str, Any] = {"$set": {"is_held": {"$cond": [{"$eq": ["$holders", {}]}, "$$REMOVE", True]}}}


def parse_reply(window: Document | None, share: ProcessShare) -> WindowReply:
    """An entry that does not have the command's number was not this process's to write."""
    entry = ((window or {}).get("holders") or {}).get(share.holder, {})
    if entry.get("n") != share.command_number:
        return WindowReply(is_ours=False, spent=0, reserved=0, granted=0)
    answer = entry["answer"]
    return WindowReply(
        is_ours=True, spent=int(answer["spent"]), reserved=int(answer["reserved"]), granted=answer["granted"]
    )


def leave_command(budget_window: BudgetWindow, share: ProcessShare) -> UpdateOne:
    entry = f"holders.{share.holder}"
    # Not only its last command's: that one may never have arrived.
    ours = {
        "_id": budget_window.id,
        f"{entry}.n": {"$lte": share.command_number},
        "$expr": {"$gt": [f"${entry}.until", "$$NOW"]},
    }
    return UpdateOne(
        ours, [{"$set": {"folded": {"$add": ["$folded", share.spent]}}}, {"$unset": entry}, UPDATE_IS_HELD]
    )


def share_command(window: BudgetWindow, share: ProcessShare, amounts: Sequence[int], limit: int | None) -> Pipeline:
    entry = f"holders.{share.holder}"
    number = {
        "spent": share.spent,
        "reserved": {"$add": [share.reserved, "$answer.sum"]},
        "answer": "$answer",
        "until": {"$add": ["$$NOW", RESERVATION_TTL_S * 1000]},
        "since": share.since,
        "n": share.command_number,
    }
    is_there: Document = {
        name: {"$ifNull": [f"${name}", value]} for name, value in (("base", 0), ("folded", 0), ("holders", {}))
    }
    if window.has_earlier_spending:  # nobody could look it up first: the store was away
        is_new = {"$eq": [{"$type": "$base"}, "missing"]}
        is_there["is_young"] = {"$cond": [is_new, True, {"$ifNull": ["$is_young", "$$REMOVE"]}]}
    return [
        {"$set": {**{name: {"$literal": value} for name, value in window.labels().items()}, **is_there}},
        {"$set": {"answer": _reply_expression(share, amounts, limit)}},
        {"$set": {entry: {"$cond": ["$answer.is_ours", number, {"$ifNull": [f"${entry}", "$$REMOVE"]}]}}},
        {"$unset": "answer"},
        UPDATE_IS_HELD,
    ]


def _reply_expression(share: ProcessShare, amounts: Sequence[int], limit: int | None) -> Document:
    entry = f"$holders.{share.holder}"
    others = {"$filter": {"input": _ENTRIES, "as": "each", "cond": {"$ne": ["$$each.k", share.holder]}}}
    goes_on = {"$and": [{"$gt": [f"{entry}.until", "$$NOW"]}, {"$lt": [f"{entry}.n", share.command_number]}]}
    is_ours = {"$cond": [{"$eq": [{"$type": entry}, "missing"]}, share.is_new, goes_on]}
    own = {"$cond": ["$$is_ours", share.spent, {"$ifNull": [f"{entry}.spent", 0]}]}
    spent = {"$add": ["$base", "$folded", _sum_expression("$$others", "$$each.v.spent"), own]}
    reserved = {"$add": [_sum_expression("$$others", _LIVE_RESERVED), {"$cond": ["$$is_ours", share.reserved, 0]}]}
    answer = {
        "is_ours": "$$is_ours",
        "spent": "$$spent",
        "reserved": {"$add": ["$$reserved", "$$got.sum"]},
        "sum": "$$got.sum",
        "granted": "$$got.count",
    }
    got = {"$let": {"vars": {"got": _grant_expression(amounts, limit)}, "in": answer}}
    sums = {"$let": {"vars": {"spent": spent, "reserved": reserved}, "in": got}}
    return {"$let": {"vars": {"is_ours": is_ours, "others": others}, "in": sums}}


def _grant_expression(amounts: Sequence[int], limit: int | None) -> Document:
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
    return {"$reduce": {"input": list(amounts), "initialValue": {"sum": 0, "count": 0, "open": True}, "in": step}}


@dataclass(frozen=True, slots=True)
class WindowUsage:
    spent: int = 0
    reserved: int = 0

    def has_room(self, limit: int) -> bool:
        """For somebody who has not begun yet. What is reserved may be left over, which is seen when it is settled."""
        return self.spent + self.reserved < limit


ShareCommand = tuple[BudgetWindow, ProcessShare, Pipeline]


class WindowStore:
    def __init__(self, database: AsyncDatabase[Document]) -> None:
        self._database = database
        self._windows = database[COLLECTION]
        self._share_writer = BulkWriter(self._send_shares)
        self._leave_writer = BulkWriter(self._leave_windows)

    async def ensure_indexes(self) -> None:
        await self._windows.create_indexes(list(INDEXES))

    async def open(self, window: BudgetWindow) -> None:
        """Of a window in which something was spent before: that is looked up once, by whoever is first."""
        if await self._windows.find_one({"_id": window.id}, {"_id": 1}) is not None:
            return
        spent = await sum_recorded_before(self._database, window.labels())
        new = {**window.labels(), "base": spent, "folded": 0, "holders": {}, "is_young": True}
        await self._windows.update_one({"_id": window.id}, {"$setOnInsert": new}, upsert=True)

    async def send_share(
        self, window: BudgetWindow, share: ProcessShare, amounts: Sequence[int] = (), *, limit: int | None = None
    ) -> WindowReply:
        """The numbers of this process, and what it wants to reserve beside them; `limit` None takes whatever comes."""
        return await self._share_writer.submit((window, share, share_command(window, share, amounts, limit)))

    async def _send_shares(self, sends: Sequence[ShareCommand]) -> Sequence[WindowReply | Exception]:
        """One round trip when it is one. Each answer stands in its own entry, which only its process writes to."""
        shown = {f"holders.{part.holder}": 1 for _, part, _ in sends}
        with pymongo.timeout(STORE_WITHIN_S):
            if len(sends) == 1:
                [(place, part, command)] = sends
                after = await self._windows.find_one_and_update(
                    {"_id": place.id}, command, shown, upsert=True, return_document=ReturnDocument.AFTER
                )
                return [parse_reply(after, part)]
            writes = [UpdateOne({"_id": place.id}, command, upsert=True) for place, _, command in sends]
            errors = await collect_bulk_errors(self._windows.bulk_write(writes, ordered=False), len(writes))
            found = self._windows.find({"_id": {"$in": [place.id for place, _, _ in sends]}}, shown)
            after_all = {window["_id"]: window async for window in found}
        answered = zip(sends, errors, strict=True)
        return [error or parse_reply(after_all.get(place.id), part) for (place, part, _), error in answered]

    async def leave(self, window: BudgetWindow, share: ProcessShare) -> None:
        """What this process has spent stays; of its entry nothing does. Once, however often it is sent."""
        await self._leave_writer.submit((window, share))

    async def _leave_windows(self, leaves: Sequence[tuple[BudgetWindow, ProcessShare]]) -> Sequence[Exception | None]:
        with pymongo.timeout(STORE_WITHIN_S):
            writes = [leave_command(place, part) for place, part in leaves]
            return await collect_bulk_errors(self._windows.bulk_write(writes, ordered=False), len(writes))

    async def read_usage(self, windows: Sequence[BudgetWindow]) -> Mapping[str, WindowUsage]:
        """By the places' ids."""
        found = await self._aggregate_usage(windows)
        unopened = [place for place in windows if place.has_earlier_spending and place.id not in found]
        for place in unopened:
            await self.open(place)
        more = await self._aggregate_usage(unopened) if unopened else {}
        return {place.id: more.get(place.id) or found.get(place.id) or WindowUsage() for place in windows}

    async def _aggregate_usage(self, windows: Sequence[BudgetWindow]) -> Mapping[str, WindowUsage]:
        asked: list[Mapping[str, Any]] = [
            {"$match": {"_id": {"$in": [place.id for place in windows]}}},
            {"$project": {"spent": SPENT, "reserved": RESERVED}},
        ]
        with pymongo.timeout(STORE_WITHIN_S):
            found = await self._windows.aggregate(asked)
            return {row["_id"]: WindowUsage(int(row["spent"]), int(row["reserved"])) async for row in found}

    async def claim_alert(self, window: BudgetWindow, event: str) -> bool:
        """Whether nobody has said this of the window and its limit."""
        limit = window.budget.limit
        unsaid = {"_id": window.id, f"said.{event}.limit": {"$ne": limit}}
        said = [{"$set": {f"said.{event}": {"limit": limit, "at": "$$NOW"}}}]
        return (await self._windows.update_one(unsaid, said)).modified_count == 1

    async def add_rejections(self, counts: Sequence[tuple[BudgetWindow, int]]) -> None:
        """Of the window; and of all time, in a document that stays when the window is deleted."""
        changes = [
            UpdateOne({"_id": each}, {"$inc": {"rejections": count}}, upsert=each != place.id)
            for place, count in counts
            for each in (place.id, all_time_id(place.budget.id, place.app_id))
        ]
        await self._windows.bulk_write(changes, ordered=False)


def all_time_id(budget_id: str, app_id: str | None) -> str:
    """The document of what is counted for all time; a space is in no part of another id where this one has it."""
    return f"ever {budget_id} {'' if app_id is None else app_id}"


async def sum_recorded_before(database: AsyncDatabase[Document], labels: Mapping[str, Any]) -> int:
    """In the window, by calls that began before its budget counted."""
    start = labels["start"]
    wanted = UsageFilter(
        app_id=labels["app_id"],
        workflow=labels["workflow"],
        since=start if labels["end"] is not None else None,
        until=labels["since"],
    )
    return sum(amount_in_unit(each, labels["unit"]) for each in await usage_totals(database, [], wanted))


def amount_in_unit(totals: UsageTotals, unit: str) -> int:
    return totals.cost_nano_usd if unit == "usd" else totals.input_tokens + totals.output_tokens
