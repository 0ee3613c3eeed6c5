"""Ledger rows, and the pipeline that sums them."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from accounting.ledger.ledger_rows import closed_row, open_row
from accounting.prices import Price, PriceTable
from accounting.totals.row_sums import SUMMED
from accounting.totals.usage_query import GROUPS, totals_pipeline
from accounting.usage import BegunCall, ModelCall, RunOwner, Tokens, UsageTotals

OWNER = RunOwner("run_1", "acme", None, "chat_1", "Digest", "schedule")
PRICES = PriceTable((Price("openai", "m", Decimal(1), Decimal(2)),))
CALL = ModelCall(
    number=3,
    agent="Writer",
    provider="openai",
    model="m",
    tokens=Tokens(input=10, cached_input=4, cache_write=1, output=5, reasoning=2),
    status="reported",
    ok=True,
    started_at=datetime(2026, 3, 1, 12, tzinfo=UTC),
    duration_s=0.5,
)


def row(call: ModelCall = CALL, *, lease_token: int = 7) -> dict[str, Any]:
    return closed_row(OWNER, lease_token=lease_token, call=call, holder="worker-1", prices=PRICES)


def test_a_rows_key_is_run_lease_token_and_call() -> None:
    assert row()["_id"] == "run_1:7:3"
    assert row(lease_token=8)["_id"] != row()["_id"]
    assert row(replace(CALL, number=4))["_id"] != row()["_id"]


def test_a_row_names_payer_and_purpose() -> None:
    assert row() == {
        "_id": "run_1:7:3",
        "run_id": "run_1",
        "app_id": "acme",
        "user_id": None,
        "chat_id": "chat_1",
        "workflow": "Digest",
        "trigger_type": "schedule",
        "agent": "Writer",
        "provider": "openai",
        "model": "m",
        "holder": "worker-1",
        "input_tokens": 10,
        "cached_input_tokens": 4,
        "cache_write_tokens": 1,
        "output_tokens": 5,
        "reasoning_tokens": 2,
        "status": "reported",
        "ok": True,
        "error": None,
        "duration_s": 0.5,
        "cost_nano_usd": 20_000,
        "price": "models file",
        "at": CALL.started_at,
        "rollup": 1,
    }


def test_an_open_row_counts_as_missing_and_has_the_time_of_its_end() -> None:
    begun = BegunCall(3, "Writer", "openai", "m", CALL.started_at, within_s=30)

    opened = open_row(OWNER, lease_token=7, call=begun, holder="worker-1")

    assert opened.keys() - row().keys() == {"open_until", "begun"}
    assert (opened["_id"], opened["status"], opened["ok"], opened["cost_nano_usd"]) == (
        "run_1:7:3",
        "missing",
        False,
        None,
    )
    assert (opened["rollup"], opened["input_tokens"]) == (0, 0)
    assert opened["open_until"] == CALL.started_at + timedelta(seconds=90)
    same = ("run_id", "app_id", "workflow", "agent", "provider", "model", "trigger_type", "at")
    assert all(opened[name] == row()[name] for name in same)


@pytest.mark.parametrize("call", [replace(CALL, status="missing", tokens=Tokens()), replace(CALL, model="unheard-of")])
def test_what_is_not_known_has_no_cost_rather_than_none_to_pay(call: ModelCall) -> None:
    assert row(call)["cost_nano_usd"] is None


def test_the_pipeline_filters_first_and_names_every_total() -> None:
    match, group = totals_pipeline(["app_id", "day"], {"app_id": "acme"})

    assert match == {"$match": {"app_id": "acme"}}
    assert group["$group"]["_id"] == {"app_id": "$app_id", "day": GROUPS["day"]}
    assert set(group["$group"]) - {"_id"} == set(UsageTotals.__dataclass_fields__) - {"key"} == set(SUMMED)


def test_totals_as_json_put_the_key_first_and_dollars_for_nano_dollars() -> None:
    totals = UsageTotals(calls=2, input_tokens=10, cost_nano_usd=1_500_000_000, missing=1, key={"app_id": "acme"})

    shown = totals.as_json()

    assert next(iter(shown)) == "app_id"
    assert (shown["cost_usd"], shown["missing"], shown["calls"]) == (1.5, 1, 2)
    assert set(shown) == {
        "app_id",
        "calls",
        "input_tokens",
        "cached_input_tokens",
        "cache_write_tokens",
        "output_tokens",
        "reasoning_tokens",
        "cost_usd",
        "missing",
        "estimated",
        "unpriced",
    }
