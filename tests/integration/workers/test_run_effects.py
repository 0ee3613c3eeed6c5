"""Effects of runs in a real store: the effects that a replay would repeat, also for runs of older versions."""

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.integration.stage import Stage, relay
from workers.control.run_answers import submit_answer
from workers.control.run_cancellation import discard
from workers.control.run_effects import EFFECT_FIELDS, MAX_LISTED, RunEffects, read_effects
from workers.store.run_store import RunStore

pytestmark = pytest.mark.integration

WRITE = {"variable": "order", "database": "shop", "collection": "orders", "key": "_id", "key_value": "o-7"}


def turn_document(number: int, *calls: tuple[str, str, dict[str, Any]], **changes: Any) -> dict[str, Any]:
    """Calls of tools: name, arguments, and further fields of the result."""
    asked = [{"id": f"{index}", "name": name, "arguments": given} for index, (name, given, _) in enumerate(calls)]
    results = [{"id": f"{index}", "name": name, "text": "ok", **said} for index, (name, _, said) in enumerate(calls)]
    events = [{"text": None, "tool_calls": asked}, {"tool_results": results}, {"text": "done", "tool_calls": []}]
    return {"_id": f"run_1:{number}", "run_id": "run_1", "number": number, "agent": "A", "events": events, **changes}


def turn_row(number: int, token: int = 1, **states: str) -> dict[str, Any]:
    calls = [{"tool": tool, "arguments": "{}", "state": state} for tool, state in states.items()]
    return {"turn": number, "agent": "A", "tokens": [token], "calls": calls}


def usage_row(token: int, number: int, *, ok: bool = True) -> dict[str, Any]:
    return {"_id": f"run_1:{token}:{number}", "run_id": "run_1", "ok": ok, "at": datetime.now(UTC)}


ONE = ["turn 1: pay(amount=12) was called"]
PAY: tuple[str, str, dict[str, Any]] = ("pay", '{"amount": 12}', {})
CASES: dict[str, tuple[dict[str, Any], list[dict[str, Any]], list[dict[str, Any]], list[str]]] = {
    "nothing was done": ({}, [turn_document(1)], [], []),
    "a call": ({}, [turn_document(1, PAY)], [], ONE),
    "a call that failed": ({}, [turn_document(1, ("pay", "{}", {"failed": True}))], [], []),
    "a call without effects": ({}, [turn_document(1, ("look", "{}", {"effects": "none"}))], [], []),
    "a call without a result": ({}, [turn_document(1, PAY, events=[turn_document(1, PAY)["events"][0]])], [], []),
    "a turn that nobody counts": ({}, [turn_document(1), turn_document(2, PAY)], [], []),
    "odd arguments": ({}, [turn_document(1, ("pay", "{", {}), ("pay", "[1]", {}), ("pay", "", {}))], [], [
        "turn 1: pay({) was called", "turn 1: pay([1]) was called", "turn 1: pay() was called",
    ]),
    "long arguments": ({}, [turn_document(1, ("pay", f'{{"a": "{"x" * 900}"}}', {}))], [], [
        f'turn 1: pay(a="{"x" * 117}…) was called',
    ]),
    "writes of a turn and of the end": ({"writes": [WRITE]}, [turn_document(1, PAY, writes=[WRITE])], [], [
        *ONE, "turn 1: order was written to shop.orders, _id o-7", "at its end: order was written to shop.orders, _id o-7",
    ]),
    "a turn that was cut off": ({"unfinished": turn_row(2, a="done", b="begun", c="failed", d="asked")}, [turn_document(1)], [], [
        "turn 2: a() was called", "turn 2: b() had begun, and what came of it is not known",
    ]),
    "a note of a turn that was finished since": ({"unfinished": turn_row(1, a="done")}, [turn_document(1)], [], []),
    "an answer after the last turn": ({}, [turn_document(1)], [usage_row(1, 1), usage_row(1, 2)], [
        "turn 2 was not finished; what its tools did is not known",
    ]),
    "an error after the last turn": ({}, [turn_document(1)], [usage_row(1, 1), usage_row(1, 2, ok=False)], []),
    "an answer that its own worker has told of": ({"unfinished": turn_row(2)}, [turn_document(1)], [usage_row(1, 1), usage_row(1, 2)], []),
    "an answer of an earlier owner": ({"unfinished": turn_row(2, token=10)}, [turn_document(1)], [usage_row(1, 1), usage_row(9, 1), usage_row(10, 1)], [
        "turn 2 was not finished; what its tools did is not known",
    ]),
}  # fmt: skip


# One case a line, however long.
# ruff: noqa: E501


async def effects(
    store: RunStore, turns: list[dict[str, Any]], rows: list[dict[str, Any]], **changes: Any
) -> RunEffects:
    run = {"_id": "run_1", "state": "failed", "turn": 1, "progress": {"counters": {"model_calls": 1}}, **changes}
    await store.runs.insert_one(run)
    await store.turns.insert_many(turns)
    if rows:
        await store.database["usage"].insert_many(rows)
    found = await store.runs.find_one({"_id": "run_1"}, dict.fromkeys(EFFECT_FIELDS, 1))
    assert found is not None
    return await read_effects(store, found)


@pytest.mark.parametrize("case", CASES)
async def test_what_a_replay_repeats_is_described_in_sentences(store: RunStore, case: str) -> None:
    changes, turns, rows, sentences = CASES[case]

    found = await effects(store, turns, rows, **changes)

    assert list(found.sentences()) == sentences
    assert bool(found) is bool(sentences)


async def test_very_many_are_counted_and_the_first_are_listed(store: RunStore) -> None:
    found = await effects(store, [turn_document(1, *[PAY] * (MAX_LISTED + 7))], [])

    assert (len(found.calls), found.more) == (MAX_LISTED, 7)
    assert [*found.sentences()][-1] == f"and {MAX_LISTED + 7 - 20} more"


@pytest.mark.parametrize(
    ("state", "keys"), [("failed", "same"), ("parked", "same"), ("cancelled", "same"), ("succeeded", "new")]
)
async def test_a_replay_has_new_keys_only_of_a_run_that_succeeded(store: RunStore, state: str, keys: str) -> None:
    found = await effects(store, [turn_document(1, PAY)], [], state=state)

    assert found.as_json()["keys"] == keys
    assert ("new idempotency keys" in found.about_keys()) is (keys == "new")


ASKING = """
from workflows.tools import use_ui_tool


def pay(amount: int):
    return "paid"


async def ask():
    return await use_ui_tool("Card", {"of": "money"})
"""


@pytest.mark.parametrize("then", ["discarded", "answered"])
async def test_of_a_turn_that_rested_what_was_done_before_is_known(stage: Stage, then: str) -> None:
    package = relay("Asker", ["A"])
    tools = [{"agent": "A", "file": "ask.py", "function": name} for name in ("pay", "ask")]
    stage.package("Asker", {**package, "tools": {"tools": tools}, "tools/ask.py": ASKING})
    pay, ask = {"name": "pay", "arguments": {"amount": 12}}, {"name": "ask"}
    stage.answers({"A": [{"tool_calls": [pay]}, {"tool_calls": [ask]}, {"error": {"status": 400}}]})
    await stage.start_worker()
    rested = await stage.wait_for_end((await stage.accept("Asker")).run_id)
    assert rested["state"] == "needs_human", rested["outcome"]

    if then == "discarded":
        await discard(stage.store, rested["_id"], by="ada")
    else:
        given = {"Card": {"verdict": "yes"}}
        await submit_answer(stage.store, stage.wakeups, rested["_id"], question=1, by="ada", responses=given)
    run = await stage.wait_for_end(rested["_id"])

    assert run["state"] == ("cancelled" if then == "discarded" else "failed"), run["outcome"]
    found = await read_effects(stage.store, run)
    asked_too = [] if then == "discarded" else ["turn 1: ask() was called"]
    assert list(found.sentences()) == [*ONE, *asked_too]
