"""Outbox batches: bounded in number and size, each event once, in order."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accounting.billing.outbox import MAX_BYTES, MAX_EVENTS, build_bodies
from accounting.ledger.ledger_rows import CORRECTS
from tests.unit.accounting.billing.rows import AT, row


def events(body: str) -> list[dict[str, Any]]:
    return list(json.loads(body)["data"]["events"])


def test_a_body_is_one_message_with_its_events() -> None:
    [(body, number)] = build_bodies([row(1), row(2)], at=AT)

    message = json.loads(body)

    assert (message["type"], message["timestamp"], number) == ("usage.batch", "2026-03-01T12:30:15.250Z", 2)
    assert [event["id"] for event in events(body)] == ["run_1:7:1", "run_1:7:2"]


def test_no_rows_are_no_batch() -> None:
    assert list(build_bodies([], at=AT)) == []


def test_a_row_that_was_counted_before_is_marked_as_corrected() -> None:
    [(body, _)] = build_bodies(
        [row(1), row(2, rollup=CORRECTS), {k: v for k, v in row(3).items() if k != "rollup"}], at=AT
    )

    assert [event["corrects"] for event in events(body)] == [False, True, False]


def test_internal_fields_are_left_out() -> None:
    [(body, _)] = build_bodies([row(holder="worker-1", error="RateLimited")], at=AT)

    assert not {"holder", "rollup", "error", "_id"} & events(body)[0].keys()


@pytest.mark.parametrize("user_id", ["u", "ü" * 300, "u" * 5_000], ids=["short", "two bytes a character", "long"])
def test_a_batch_is_neither_too_long_nor_too_large(user_id: str) -> None:
    made = list(build_bodies([row(number, user_id=user_id) for number in range(120)], at=AT))

    assert all(number <= MAX_EVENTS and len(body.encode()) <= MAX_BYTES for body, number in made)
    assert all(len(body.encode()) > MAX_BYTES * 0.7 for body, _ in made[:-1])


def test_small_events_are_at_most_fifty() -> None:
    small = row(chat_id="", model="", agent="", provider="", trigger_type="", workflow="", run_id="", _id="", price="")

    assert max(number for _, number in build_bodies([small] * 200, at=AT)) <= MAX_EVENTS


def test_an_event_that_is_too_large_for_any_batch_goes_alone() -> None:
    made = list(build_bodies([row(1), row(2, user_id="u" * 50_000), row(3)], at=AT))

    assert [number for _, number in made] == [1, 1, 1]


@given(st.lists(st.text(max_size=3_000), max_size=40))
def test_every_row_is_in_exactly_one_batch(user_ids: list[str]) -> None:
    rows = [row(number, user_id=user_id) for number, user_id in enumerate(user_ids)]

    made = list(build_bodies(rows, at=AT))

    sent = [(event["id"], event["user_id"]) for body, _ in made for event in events(body)]
    assert sent == [(row["_id"], row["user_id"]) for row in rows]
    assert [len(events(body)) for body, _ in made] == [number for _, number in made]


def test_the_page_shows_a_batch_as_it_is() -> None:
    page = Path(__file__).parents[4] / "docs" / "billing.md"
    shown = json.loads(page.read_text(encoding="utf-8").split("```json\n")[1].split("```")[0])
    [(body, _)] = build_bodies([row()], at=AT)
    made = json.loads(body)

    [shown_event], [made_event] = shown["data"]["events"], made["data"]["events"]
    assert [(name, type(value)) for name, value in shown_event.items()] == [
        (name, type(value)) for name, value in made_event.items()
    ]
    assert [*shown] == [*made]
    assert shown_event["tokens_used"] == shown_event["input_tokens"] + shown_event["output_tokens"]
