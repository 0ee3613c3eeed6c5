"""The store of windows: collection `budget_windows`, a document per window and app.

A document holds what was spent before the first reservation (`base`), what processes that have left had spent
(`folded`), and for each process in it (`holders`) what it has spent and reserved, and until when the reservation holds.

A process sends its absolute numbers, never increments: a command is sent again if its reply was lost, and changes
nothing then. `n` grows with each command, so that a delayed one is ignored. An entry that is over no longer belongs to
its process: the budget reconciler sums it up from the ledger. The process, if it only slept, is refused and comes back
under another name.
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
STORE_TIMEOUT_S = 5.0  # a longer command is neither waited for nor carried out later

INDEXES = (
    # The windows of a budget, the present one first.
    IndexModel([("budget_id", ASCENDING), ("start", -1)], name="by_budget"),
    # Those with a process in it, alive or dead.
    IndexModel([("is_held", ASCENDING)], name="by_holders", partialFilterExpression={"is_held": True}),
    # Those with a base that may still change: calls that began before the budget are still running.
    IndexModel([("is_young", ASCENDING)], name="by_youth", partialFilterExpression={"is_young": True}),
    IndexModel([("end", ASCENDING)], name="by_end"),
)

Document = dict[str, Any]
Pipeline = list[Mapping[str, Any]]

RESERVATION_TTL_S = 60


@dataclass(frozen=True, slots=True)
class ProcessShare:
    """The numbers of one process in a window.

    `is_new`: the store has confirmed none of them yet.
    """

    holder: str
    command_number: int
    spent: int
    reserved: int
    since: datetime
    is_new: bool


@dataclass(frozen=True, slots=True)
class WindowReply:
    """The reply to a command. `is_ours`: the entry still belongs to this process.

    Of the requested amounts the first `granted` have got room.
    """

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
    """Reads the reply.

    An entry without the command's number did not belong to this process.
    """
    entry = ((window or {}).get("holders") or {}).get(share.holder, {})
    if entry.get("n") != share.command_number:
        return WindowReply(is_ours=False, spent=0, reserved=0, granted=0)
    answer = entry["answer"]
    return WindowReply(
        is_ours=True, spent=int(answer["spent"]), reserved=int(answer["reserved"]), granted=answer["granted"]
    )


def leave_command(budget_window: BudgetWindow, share: ProcessShare) -> UpdateOne:
    entry = f"holders.{share.holder}"
    # Also lower numbers: the last command may never have arrived.
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
    numbers = {
        "spent": share.spent,
        "reserved": {"$add": [share.reserved, "$answer.sum"]},
        "answer": "$answer",
        "until": {"$add": ["$$NOW", RESERVATION_TTL_S * 1000]},
        "since": share.since,
        "n": share.command_number,
    }
    defaults: Document = {
        name: {"$ifNull": [f"${name}", value]} for name, value in (("base", 0), ("folded", 0), ("holders", {}))
    }
    if window.has_earlier_spending:  # the store was unavailable when its base should have been summed up
        is_new = {"$eq": [{"$type": "$base"}, "missing"]}
        defaults["is_young"] = {"$cond": [is_new, True, {"$ifNull": ["$is_young", "$$REMOVE"]}]}
    return [
        {"$set": {**{name: {"$literal": value} for name, value in window.labels().items()}, **defaults}},
        {"$set": {"answer": _reply_expression(share, amounts, limit)}},
        {"$set": {entry: {"$cond": ["$answer.is_ours", numbers, {"$ifNull": [f"${entry}", "$$REMOVE"]}]}}},
        {"$unset": "answer"},
        UPDATE_IS_HELD,
    ]


def _reply_expression(share: ProcessShare, amounts: Sequence[int], limit: int | None) -> Document:
    entry = f"$holders.{share.holder}"
    others = {"$filter": {"input": _ENTRIES, "as": "each", "cond": {"$ne": ["$$each.k", share.holder]}}}
    is_valid = {"$and": [{"$gt": [f"{entry}.until", "$$NOW"]}, {"$lt": [f"{entry}.n", share.command_number]}]}
    is_ours = {"$cond": [{"$eq": [{"$type": entry}, "missing"]}, share.is_new, is_valid]}
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
    """Grants as many amounts as fit, in their order. None is overtaken.

    An amount alone need not fit as long as anything is left: otherwise the rest could never be spent, without any sign
    that it is too little.
    """
    fits: Any = True
    if limit is not None:
        taken = {"$add": ["$$reserved", "$$value.sum"]}
        alone = {"$and": [{"$eq": [taken, 0]}, {"$lt": ["$$spent", limit]}]}
        fits = {"$or": [{"$lte": [{"$add": ["$$spent", taken, "$$this"]}, limit]}, alone]}
    granted = {"sum": {"$add": ["$$value.sum", "$$this"]}, "count": {"$add": ["$$value.count", 1]}, "open": True}
    closed = {"$mergeObjects": ["$$value", {"open": False}]}
    step = {"$cond": [{"$and": ["$$is_ours", "$$value.open", fits]}, granted, closed]}
    return {"$reduce": {"input": list(amounts), "initialValue": {"sum": 0, "count": 0, "open": True}, "in": step}}


@dataclass(frozen=True, slots=True)
class WindowUsage:
    spent: int = 0
    reserved: int = 0

    def has_room(self, limit: int) -> bool:
        """Checks whether a run that has not begun may start.

        Reservations count as spent: they may be released, which shows when they are settled.
        """
        return self.spent + self.reserved < limit


ShareCommand = tuple[BudgetWindow, ProcessShare, Pipeline]


class WindowStore:
    def __init__(self, database: AsyncDatabase[Document], *, timeout_s: float = STORE_TIMEOUT_S) -> None:
        self._database = database
        self._timeout_s = timeout_s
        self._windows = database[COLLECTION]
        self._share_writer = BulkWriter(self._send_shares)
        self._leave_writer = BulkWriter(self._leave_windows)

    async def ensure_indexes(self) -> None:
        await self._windows.create_indexes(list(INDEXES))

    async def open(self, window: BudgetWindow) -> None:
        """Creates the document of a window with earlier spending, which is summed up once."""
        if await self._windows.find_one({"_id": window.id}, {"_id": 1}) is not None:
            return
        spent = await sum_recorded_before(self._database, window.labels())
        new = {**window.labels(), "base": spent, "folded": 0, "holders": {}, "is_young": True}
        await self._windows.update_one({"_id": window.id}, {"$setOnInsert": new}, upsert=True)

    async def send_share(
        self, window: BudgetWindow, share: ProcessShare, amounts: Sequence[int] = (), *, limit: int | None = None
    ) -> WindowReply:
        """Sends the numbers of this process and the amounts to reserve.

        `limit` None grants all.
        """
        return await self._share_writer.submit((window, share, share_command(window, share, amounts, limit)))

    async def _send_shares(self, sends: Sequence[ShareCommand]) -> Sequence[WindowReply | Exception]:
        """Sends shares; a single one in one round trip.

        Each reply is in the entry of its process, which no other process writes.
        """
        shown = {f"holders.{share.holder}": 1 for _, share, _ in sends}
        with pymongo.timeout(self._timeout_s):
            if len(sends) == 1:
                [(window, share, command)] = sends
                after = await self._windows.find_one_and_update(
                    {"_id": window.id}, command, shown, upsert=True, return_document=ReturnDocument.AFTER
                )
                return [parse_reply(after, share)]
            writes = [UpdateOne({"_id": window.id}, command, upsert=True) for window, _, command in sends]
            errors = await collect_bulk_errors(self._windows.bulk_write(writes, ordered=False), len(writes))
            found = self._windows.find({"_id": {"$in": [window.id for window, _, _ in sends]}}, shown)
            after_all = {document["_id"]: document async for document in found}
        answered = zip(sends, errors, strict=True)
        return [error or parse_reply(after_all.get(window.id), share) for (window, share, _), error in answered]

    async def leave(self, window: BudgetWindow, share: ProcessShare) -> None:
        """Adds what this process has spent to what stays, and removes its entry.

        Repeating it changes nothing.
        """
        await self._leave_writer.submit((window, share))

    async def _leave_windows(self, leaves: Sequence[tuple[BudgetWindow, ProcessShare]]) -> Sequence[Exception | None]:
        with pymongo.timeout(self._timeout_s):
            writes = [leave_command(window, share) for window, share in leaves]
            return await collect_bulk_errors(self._windows.bulk_write(writes, ordered=False), len(writes))

    async def read_usage(self, windows: Sequence[BudgetWindow]) -> Mapping[str, WindowUsage]:
        """Reads what is spent and reserved, by the ids of the windows."""
        found = await self._aggregate_usage(windows)
        unopened = [window for window in windows if window.has_earlier_spending and window.id not in found]
        for window in unopened:
            await self.open(window)
        opened = await self._aggregate_usage(unopened) if unopened else {}
        return {window.id: opened.get(window.id) or found.get(window.id) or WindowUsage() for window in windows}

    async def _aggregate_usage(self, windows: Sequence[BudgetWindow]) -> Mapping[str, WindowUsage]:
        pipeline: list[Mapping[str, Any]] = [
            {"$match": {"_id": {"$in": [window.id for window in windows]}}},
            {"$project": {"spent": SPENT, "reserved": RESERVED}},
        ]
        with pymongo.timeout(self._timeout_s):
            found = await self._windows.aggregate(pipeline)
            return {row["_id"]: WindowUsage(int(row["spent"]), int(row["reserved"])) async for row in found}

    async def claim_alert(self, window: BudgetWindow, event: str) -> bool:
        """Claims an alert of the window and its limit. False if it was claimed before."""
        limit = window.budget.limit
        unclaimed = {"_id": window.id, f"said.{event}.limit": {"$ne": limit}}
        claim = [{"$set": {f"said.{event}": {"limit": limit, "at": "$$NOW"}}}]
        return (await self._windows.update_one(unclaimed, claim)).modified_count == 1

    async def add_rejections(self, counts: Sequence[tuple[BudgetWindow, int]]) -> None:
        """Adds rejections to the window, and to a document for all time.

        The latter stays when the window is deleted.
        """
        changes = [
            UpdateOne({"_id": id_}, {"$inc": {"rejections": count}}, upsert=id_ != window.id)
            for window, count in counts
            for id_ in (window.id, all_time_id(window.budget.id, window.app_id))
        ]
        await self._windows.bulk_write(changes, ordered=False)


def all_time_id(budget_id: str, app_id: str | None) -> str:
    """Builds the id of the document for all time.

    Its first space is where no other id has one.
    """
    return f"ever {budget_id} {'' if app_id is None else app_id}"


async def sum_recorded_before(database: AsyncDatabase[Document], labels: Mapping[str, Any]) -> int:
    """Sums up the calls in the window that began before its budget counted."""
    start = labels["start"]
    calls = UsageFilter(
        app_id=labels["app_id"],
        workflow=labels["workflow"],
        since=start if labels["end"] is not None else None,
        until=labels["since"],
    )
    return sum(amount_in_unit(totals, labels["unit"]) for totals in await usage_totals(database, [], calls))


def amount_in_unit(totals: UsageTotals, unit: str) -> int:
    return totals.cost_nano_usd if unit == "usd" else totals.input_tokens + totals.output_tokens
