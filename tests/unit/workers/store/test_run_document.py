"""Documents of new runs: their ids, their lanes, and their public view."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from ulid import ULID

from workers.steps.turn_record import turn_document
from workers.store.run import RunRequest, TriggerEvent, new_run_id
from workers.store.run_document import as_json, key_of_app, run_document
from workers.store.run_order import as_head, as_held, awaited_order_key, order_key_of
from workers.store.storable import NotStorableError
from workflows.chat.history.checkpoint import Checkpoint, RunCounters
from workflows.chat.history.transcript import Turn

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def document(**request: Any) -> dict[str, Any]:
    asked = RunRequest("acme", "Relay", TriggerEvent("webhook", "hook", "1", fired_at=NOW), **request)
    return run_document(asked, now=NOW, republish_after=timedelta(seconds=15))


def test_run_ids_are_ulids_of_now_that_sort_as_they_were_made() -> None:
    run_ids = [new_run_id() for _ in range(5_000)]

    assert run_ids == sorted(set(run_ids))
    ulids = [ULID.from_str(run_id.removeprefix("run_")) for run_id in (run_ids[0], run_ids[-1])]
    assert all(abs((each.datetime - datetime.now(UTC)).total_seconds()) < 60 for each in ulids)
    assert all(str(each) == run_id[4:] for each, run_id in zip(ulids, (run_ids[0], run_ids[-1]), strict=True))


def test_what_is_to_start_later_is_in_no_lane() -> None:
    later = NOW + timedelta(hours=1)
    waits, is_ready = document(not_before=later), document(not_before=NOW)

    assert (waits["not_before"], waits["wake_at"], "lane" in waits) == (later, later, False)
    assert (is_ready["not_before"], is_ready["lane"]) == (None, "acme")


def test_a_place_in_an_order_is_of_the_app_and_sorts_by_the_run() -> None:
    run = document(order_key="orders/7")

    assert run["order"] == {"key": "acme/orders/7", "seq": run["_id"]}
    assert document(order_key="a", order_seq="42")["order"]["seq"] == "42"
    assert key_of_app("a/b", "c") != key_of_app("a", "b/c")


@pytest.mark.parametrize("key", ["", "k" * 1001, "half a character \ud800"])
def test_an_order_key_that_cannot_be_kept_is_refused(key: str) -> None:
    with pytest.raises(NotStorableError, match="order_key"):
        document(order_key=key)


@pytest.mark.parametrize("name", ["user_id", "chat_id", "correlation_id", "parent_run_id", "message"])
def test_text_that_cannot_be_kept_is_refused_by_its_name(name: str) -> None:
    with pytest.raises(NotStorableError, match=f"^{name} is text with a lone surrogate"):
        document(**{name: "half of a character \ud800"})


def test_a_run_is_placed_anew_whatever_it_was_before() -> None:
    run = document(order_key="k", not_before=NOW + timedelta(hours=1))
    head, held = as_head(as_held(document(order_key="k"))), as_held(as_head(document(order_key="k")))

    assert (head["order_head"], head["hold"], "held_by" in head) == ("acme/k", None, False)
    assert (held["held_by"], held["hold"], "order_head" in held) == ("order:acme/k", "concurrency", False)
    assert "lane" not in held
    assert ("lane" in as_head(run), as_head(run)["not_before"]) == (False, run["not_before"])


def test_only_a_run_that_waits_for_its_turn_waits_for_its_order() -> None:
    run = document(order_key="k")

    assert [awaited_order_key(each) for each in (as_head(run), as_held(run))] == [None, "acme/k"]
    assert awaited_order_key({**as_head(run), "hold": "concurrency", "held_by": "app:acme"}) is None
    assert (order_key_of(run), order_key_of(document())) == ("acme/k", None)


def test_a_chain_is_kept_and_how_a_run_finds_its_worker_is_not_shown() -> None:
    run = {**as_head(document(order_key="k", chain=("A/done", "B/done"), parent_run_id="run_1")), "debounce": None}
    debounced = {**run, "debounce": {"open": "x", "until": NOW, "events": ["a", "b"]}}

    shown = as_json(run)
    assert (shown["chain"], shown["parent_run_id"]) == (["A/done", "B/done"], "run_1")
    assert not {"order_head", "lane", "wake_at"} & shown.keys()
    assert as_json(debounced)["debounce"] == {"until": NOW, "events": 2}
    assert "chain" not in document()


def test_failed_calls_of_tools_stand_in_the_run_with_each_turn() -> None:
    """Lists find them in unfinished runs, and in runs that lost their worker after the turn."""
    turn = Turn("A", "ok")

    _, kept = turn_document(turn, Checkpoint((turn,), {}, None, RunCounters(failed_tools=3)))

    assert kept["failed_tools"] == 3
    assert document()["failed_tools"] == 0
    of_an_older_version = {name: value for name, value in document().items() if name != "failed_tools"}
    assert as_json(of_an_older_version)["failed_tools"] == 0
    assert as_json({**document(), **kept})["failed_tools"] == 3
