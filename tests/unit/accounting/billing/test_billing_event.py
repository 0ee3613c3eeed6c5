"""Billing events: the fields of a row that receivers and exports see, and no others."""

import csv
import io
import json
from datetime import timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accounting.billing.billing_event import FIELDS, to_billing_event
from accounting.billing.ledger_export import to_csv_row, to_json_line
from accounting.infra.csv_lines import format_csv_line
from tests.unit.accounting.billing.rows import AT, row


@pytest.mark.design("D4-77", "D4-80")
def test_an_event_names_payer_and_purpose_and_has_the_id_of_its_row() -> None:
    assert to_billing_event(row()) == {
        "id": "run_1:7:1",
        "at": "2026-03-01T12:30:15.250Z",
        "app_id": "acme",
        "user_id": None,
        "chat_id": "chat_1",
        "workflow": "Digest",
        "run_id": "run_1",
        "trigger_type": "schedule",
        "agent": "Writer",
        "provider": "openai",
        "model": "gpt",
        "tokens_used": 110,
        "input_tokens": 100,
        "cached_input_tokens": 40,
        "cache_write_tokens": 1,
        "output_tokens": 10,
        "reasoning_tokens": 2,
        "cost_usd": 0.000120001,
        "price": "built-in 2026-03-01",
        "status": "reported",
        "ok": True,
    }


def test_a_time_is_written_in_utc() -> None:
    berlin = AT.astimezone(timezone(timedelta(hours=1)))

    assert to_billing_event(row(at=berlin))["at"] == "2026-03-01T12:30:15.250Z"


@pytest.mark.parametrize(
    ("changes", "cost_usd", "in_csv"),
    [
        ({"cost_nano_usd": None}, None, ""),
        ({"cost_nano_usd": None, "status": "missing"}, 0, "0.000000000"),
        ({"cost_nano_usd": 0}, 0, "0.000000000"),
        ({"cost_nano_usd": 1}, 1e-9, "0.000000001"),
        ({"cost_nano_usd": 12_345_678_901}, 12.345678901, "12.345678901"),
    ],
)
def test_unknown_is_not_free_and_a_call_without_an_answer_is(
    changes: dict[str, Any], cost_usd: float | None, in_csv: str
) -> None:
    assert to_billing_event(row(**changes))["cost_usd"] == cost_usd
    assert to_csv_row(row(**changes))[FIELDS.index("cost_usd")] == (in_csv or None)


@given(st.lists(st.integers(0, 10**14), max_size=30))
def test_sums_of_what_is_written_are_exact(costs: list[int]) -> None:
    in_json = [json.loads(to_json_line(row(cost_nano_usd=cost)), parse_float=Decimal)["cost_usd"] for cost in costs]
    in_csv = [Decimal(to_csv_row(row(cost_nano_usd=cost))[FIELDS.index("cost_usd")]) for cost in costs]

    assert sum(in_json) * 10**9 == sum(in_csv) * 10**9 == sum(costs)


def test_a_line_of_csv_has_its_cells_in_the_order_of_the_header() -> None:
    user_id = 'a "b", c\nd\re'
    text = format_csv_line(FIELDS) + format_csv_line(to_csv_row(row(user_id=user_id, ok=False)))

    [read] = csv.DictReader(io.StringIO(text, newline=""))

    assert [read[name] for name in ("id", "user_id", "tokens_used", "ok")] == ["run_1:7:1", user_id, "110", "false"]


def test_the_columns_stay_as_they_are() -> None:
    """New columns come last: spreadsheets and loaders address columns by position."""
    assert ",".join(FIELDS).startswith(
        "id,at,app_id,user_id,chat_id,workflow,run_id,trigger_type,agent,provider,model,tokens_used,input_tokens,"
        "cached_input_tokens,cache_write_tokens,output_tokens,reasoning_tokens,cost_usd,price,status,ok"
    )
