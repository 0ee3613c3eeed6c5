"""A large ledger, made by the database itself in one command: many apps, each with workflows, models and failures."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pymongo.asynchronous.database import AsyncDatabase

from accounting.totals.row_sums import LABELS, STATE, STATE_ID, TOTAL_INDEXES, TOTALS
from accounting.totals.usage_query import totals_pipeline

Document = dict[str, Any]

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
CALLS_OF_A_RUN = 5
WORKFLOWS = ("DailyDigest", "OrderReview", "SupportTriage", "WeeklyReport", "Onboarding")
MODELS = ("gpt-5-mini", "claude-sonnet-4-5", "gemini-2.5-flash", "gpt-5", "mistral-large")
PROVIDERS = ("openai", "anthropic", "gemini", "openai", "mistral")
AGENTS = ("Collector", "Writer")
OUTCOMES = ("completed", "completed", "completed", "timeout")
FAILED, MISSING, ESTIMATED = 11, 22, 17  # one call in so many; of those that failed half are missing


@dataclass(frozen=True, slots=True)
class LedgerSize:
    rows: int
    apps: int
    workflows: int = 3
    models: int = 3


async def fill(database: AsyncDatabase[Document], size: LedgerSize) -> None:
    """`usage`, all of it in the totals of all time, as roll-ups would have made them; and `runs` that ended."""
    await database.aggregate([*_numbers(size.rows), {"$project": _row(size)}, {"$out": "usage"}])
    await database.aggregate([*_numbers(size.rows // CALLS_OF_A_RUN), {"$project": _run(size)}, {"$out": "runs"}])
    total = {"$mergeObjects": ["$$ROOT", "$_id", {"seq": 1, "_id": {"$concat": _NAMES}}]}
    await database["usage"].aggregate([*totals_pipeline(LABELS, {}), {"$replaceWith": total}, {"$out": TOTALS}])
    await database[TOTALS].create_indexes([*TOTAL_INDEXES])
    await database[STATE].insert_one({"_id": STATE_ID, "seq": 1, "ready": True})


_NAMES = [{"$concat": [{"$toString": f"$_id.{name}"}, "/"]} for name in LABELS]


def _numbers(count: int) -> list[Document]:
    per_document = 1_000
    return [
        {"$documents": [{"thousand": number} for number in range(-(-count // per_document))]},
        {"$set": {"one": {"$range": [0, per_document]}}},
        {"$unwind": "$one"},
        {"$project": {"n": {"$add": [{"$multiply": ["$thousand", per_document]}, "$one"]}}},
        {"$match": {"n": {"$lt": count}}},
    ]


def _row(size: LedgerSize) -> Document:
    ok = {"$ne": [{"$mod": ["$n", FAILED]}, 0]}
    missing = {"$eq": [{"$mod": ["$n", MISSING]}, 0]}
    provider = _one_of(PROVIDERS[: size.models], _place(size.apps * size.workflows))
    # Of one model usage is estimated now and then, and nobody knows its price.
    odd = {"$eq": [provider, "gemini"]}
    estimated = {"$and": [odd, {"$eq": [{"$mod": ["$n", ESTIMATED]}, 0]}]}
    writes = {"$cond": [{"$eq": [provider, "anthropic"]}, 50, 0]}  # and says nothing of reasoning
    reasoning = {"$cond": [{"$eq": [provider, "anthropic"]}, 0, 40]}
    tokens = {"input": 900, "cached_input": 300, "cache_write": writes, "output": 120, "reasoning": reasoning}
    return {
        "_id": {"$concat": ["run_", {"$toString": "$n"}, ":1:1"]},
        "run_id": {"$concat": ["run_", {"$toString": {"$floor": {"$divide": ["$n", CALLS_OF_A_RUN]}}}]},
        "app_id": _app(size),
        "workflow": _one_of(WORKFLOWS[: size.workflows], _place(size.apps)),
        "model": _one_of(MODELS[: size.models], _place(size.apps * size.workflows)),
        "provider": provider,
        "agent": _one_of(AGENTS, _place(size.apps * size.workflows * size.models)),
        "trigger_type": {"$literal": "schedule"},
        "status": {
            "$switch": {"branches": [_case(missing, "missing"), _case(estimated, "estimated")], "default": "reported"}
        },
        "ok": ok,
        "cost_nano_usd": {"$cond": [{"$or": [missing, odd]}, None, {"$toLong": 393_000}]},
        **{f"{name}_tokens": {"$cond": [missing, 0, {"$toLong": count}]} for name, count in tokens.items()},
        "at": {"$dateAdd": {"startDate": START, "unit": "millisecond", "amount": "$n"}},
    }


def _case(condition: Document, then: str) -> Document:
    return {"case": condition, "then": then}


def _run(size: LedgerSize) -> Document:
    return {
        "_id": {"$concat": ["run_", {"$toString": "$n"}]},
        "dedupe_key": {"$concat": ["event-", {"$toString": "$n"}]},
        "app_id": _app(size),
        "workflow": _one_of(WORKFLOWS[: size.workflows], _place(size.apps)),
        "trigger": {"type": {"$literal": "schedule"}, "name": {"$literal": "t"}},
        "state": _one_of(("succeeded", "succeeded", "succeeded", "failed"), _place(1)),
        "outcome": {"kind": _one_of(OUTCOMES, _place(1))},
        "finished_at": {"$literal": START + timedelta(hours=1)},
        "created_at": {"$literal": START},
    }


def _app(size: LedgerSize) -> Document:
    return {"$concat": ["app-", {"$toString": {"$mod": ["$n", size.apps]}}]}


def _place(step: int) -> Document:
    return {"$toInt": {"$floor": {"$divide": ["$n", step]}}}


def _one_of(names: tuple[str, ...], place: Document) -> Document:
    return {"$arrayElemAt": [list(names), {"$mod": [place, len(names)]}]}
