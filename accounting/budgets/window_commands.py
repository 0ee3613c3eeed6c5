"""Commands to a window's document, and what it answers: the numbers of one process, and what of its wishes has room.

How they stay true when they are repeated, delayed or too late, `window_store` says.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pymongo import UpdateOne

from accounting.budgets.places import BudgetWindow

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
    return WindowReply(is_ours=True, spent=int(answer["spent"]), reserved=int(answer["reserved"]), granted=answer["granted"])


def leave_command(budget_window: BudgetWindow, share: ProcessShare) -> UpdateOne:
    entry = f"holders.{share.holder}"
    # Not only its last command's: that one may never have arrived.
    ours = {"_id": budget_window.id, f"{entry}.n": {"$lte": share.command_number}, "$expr": {"$gt": [f"${entry}.until", "$$NOW"]}}
    return UpdateOne(ours, [{"$set": {"folded": {"$add": ["$folded", share.spent]}}}, {"$unset": entry}, UPDATE_IS_HELD])


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
