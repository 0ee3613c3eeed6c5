"""Open turns in a real store: several questions of one turn, its stored steps, and its end."""

import asyncio
from datetime import timedelta

import pytest

from tests.integration.stage import Document, Stage, relay, wait_until
from workers.control.change_result import RefusedError
from workers.control.run_answers import AnswerResult, submit_answer
from workers.control.run_cancellation import cancel
from workers.control.run_replay import ReplayOptions, replay
from workers.reconciler.run_retention import RunRetention

pytestmark = pytest.mark.integration

SECRET, PIN = "canary-open-turn-77", "48151623"
CALLS = 20

TOOLS = """
import os
from workflows.tools import use_ui_tool

KEY, PIN = os.environ.get("DESK_KEY", "none-here"), int(os.environ.get("DESK_PIN", "77"))

def note(context_variables):
    context_variables[KEY] = 1
    context_variables["odd"] = {"$a.b": [{"c.$d": KEY, KEY: PIN}]}
    context_variables["pin"] = PIN
    context_variables[5] = object()
    return {"found": [KEY, PIN]}

async def pay(amount: int, context_variables):
    payload = {"amount": amount, "key": [KEY, PIN]}
    answer = await use_ui_tool("Pay", payload, title=f"With {KEY}?", choices=["yes", "no"])
    with open(os.environ["DESK_PAID"], "a") as paid:
        paid.write(f"{amount}:{answer['choice']}:{answer['a.b']} ")
    return answer
"""


@pytest.fixture
async def desk(stage: Stage) -> Stage:
    package = relay("Desk", ["A", "B"])
    hidden = {
        name: {"type": "string", "source": {"type": "environment", "env_var": variable}}
        for name, variable in (("key", "DESK_KEY"), ("code", "DESK_PIN"))
    }
    tools = [{"agent": "A", "file": "desk.py", "function": name} for name in ("note", "pay")]
    package |= {"tools": {"tools": tools}, "tools/desk.py": TOOLS, "context_variables": {"definitions": hidden}}
    stage.package("Desk", package)
    pays = [{"name": "pay", "arguments": {"amount": amount}} for amount in range(1, CALLS + 1)]
    replies = [{"tool_calls": [{"name": "note"}, *pays], "text": f"with {PIN}"}, {"text": "ok"}]
    stage.answers({"A": replies, "B": [{"text": "done"}]})
    stage.settings.environ["DESK_PAID"] = str(stage.folder / "paid")  # type: ignore[index]  # the fixture's own copy
    return stage


async def wait_for_questions(stage: Stage, run_id: str) -> Document:
    async def asks() -> Document | None:
        run = await stage.run(run_id)
        assert run["state"] in ("queued", "running", "needs_human"), run["outcome"]
        return run if run["state"] == "needs_human" else None

    run: Document = await wait_until(f"{run_id} asks", asks)
    return run


async def send_answer(stage: Stage, run_id: str, number: int, choice: str = "yes", by: str = "ann") -> AnswerResult:
    responses = {"Pay": {"choice": choice, "a.b": f"${number}"}}
    return await submit_answer(stage.store, stage.wakeups, run_id, question=number, by=by, responses=responses)


async def test_many_answer_all_questions_of_a_run_at_once(desk: Stage) -> None:
    stage = desk
    await stage.start_worker()
    run_id = (await stage.accept("Desk")).run_id
    run = await wait_for_questions(stage, run_id)
    assert [(each["number"], each["arguments"]["amount"]) for each in run["questions"]] == [
        (number, number) for number in range(1, CALLS + 1)
    ]
    assert await stage.store.committed_turns(run_id, up_to=run["turn"]) == []

    said = [send_answer(stage, run_id, number, by=by) for number in range(1, CALLS + 1) for by in ("ann", "bob")]
    results = await asyncio.gather(*said, return_exceptions=True)

    counted = [each for each in results if isinstance(each, AnswerResult) and not each.repeated]
    assert sorted(each.number for each in counted) == list(range(1, CALLS + 1))
    assert sum(isinstance(each, RefusedError) for each in results) == CALLS
    assert sum(not each.waiting for each in counted) == 1
    run = await stage.wait_for_end(run_id)
    assert (run["state"], run["context"]["odd"]) == ("succeeded", {"$a.b": [{"c.$d": "none-here", "none-here": 77}]})
    paid = sorted((stage.folder / "paid").read_text().split())
    assert paid == sorted(f"{number}:yes:${number}" for number in range(1, CALLS + 1))
    assert [row["agent"] for row in await stage.usage_rows(run_id)] == ["A", "A", "B"]
    turns = await stage.store.committed_turns(run_id, up_to=run["turn"])
    assert [set(turn) & {"steps"} for turn in turns] == [set(), set()]


async def test_nothing_hidden_in_production_is_kept_with_questions_and_steps(desk: Stage) -> None:
    stage = desk
    stage.settings.environ.update(DESK_KEY=SECRET, DESK_PIN=PIN)  # type: ignore[attr-defined]  # the fixture's own copy
    await stage.start_worker(environment="production")
    run_id = (await stage.accept("Desk")).run_id

    async def read_stored() -> str:
        run = await stage.store.find(run_id)
        return str([run, await stage.store.turns.find({"run_id": run_id}).to_list(None)])

    run = await wait_for_questions(stage, run_id)
    [turn] = await stage.store.turns.find({"run_id": run_id}).to_list(None)
    assert len(turn["steps"]) == 2
    assert run["questions"][0]["title"] == "With (hidden)?"
    shown = await read_stored()
    assert [value for value in (SECRET, PIN) if value in shown] == []

    for number in range(1, CALLS + 1):
        await send_answer(stage, run_id, number, "no")
    assert (await stage.wait_for_end(run_id))["state"] == "succeeded"
    shown = await read_stored()
    assert [value for value in (SECRET, PIN) if value in shown] == []


async def test_a_partly_answered_run_is_cancelled_replayed_and_deleted_whole(desk: Stage) -> None:
    stage = desk
    await stage.start_worker()
    run_id = (await stage.accept("Desk")).run_id
    await wait_for_questions(stage, run_id)
    await send_answer(stage, run_id, 2)

    await cancel(stage.store, run_id, by="ann")

    run = await stage.run(run_id)
    assert (run["state"], run["question"], run.get("questions"), run["turn"]) == ("cancelled", None, None, 0)
    with pytest.raises(RefusedError, match="it has ended as cancelled"):
        await send_answer(stage, run_id, 1)
    assert (await send_answer(stage, run_id, 2)).repeated
    again = await replay(stage.store, stage.wakeups, run_id, by="ann", options=ReplayOptions(repeat_done=True))
    assert again.new_run_id is not None
    new = await wait_for_questions(stage, again.new_run_id)
    assert [len(new["questions"]), new.get("answers") or []] == [CALLS, []]
    assert {each["id"] for each in new["questions"]}.isdisjoint(each["question"]["id"] for each in run["answers"])

    await RunRetention(stage.store, timedelta(0)).prune_batch()
    assert [turn["run_id"] async for turn in stage.store.turns.find({})] == [again.new_run_id]
    assert not (stage.folder / "paid").exists()


async def test_a_run_at_rest_before_an_upgrade_is_answered_after_and_asks_again(desk: Stage) -> None:
    """The older version kept one question, without an id, and no steps of the turn."""
    stage = desk
    worker = await stage.start_worker()
    run_id = (await stage.accept("Desk")).run_id
    run = await wait_for_questions(stage, run_id)
    new = ("id", "arguments", "position", "digests", "title", "choices")
    old = {name: value for name, value in run["question"].items() if name not in new}
    await stage.store.runs.update_one({"_id": run_id}, {"$set": {"question": old}, "$unset": {"questions": 1}})
    await stage.store.turns.delete_many({"run_id": run_id})

    assert (await send_answer(stage, run_id, 1)).waiting == ()

    async def asks_again() -> Document | None:
        run = await stage.run(run_id)
        assert run["state"] in ("queued", "running", "needs_human"), run["outcome"]
        return run if (run["question"] or {}).get("number") == 2 else None

    run = await wait_until("it asks again", asks_again)
    assert [each["number"] for each in run["questions"]] == list(range(2, CALLS + 2))
    assert worker.returncode is None
