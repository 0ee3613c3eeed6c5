"""Gates on real workers: standing answers for small payments, a person for large ones; only a yes opens a gate."""

from typing import Any

import pytest

from tests.integration.stage import Document, Stage, wait_until
from workers.control.run_answers import submit_answer
from workers.control.run_replay import ReplayOptions, replay

pytestmark = pytest.mark.integration

TOOL = """
from workflows.tools import use_ui_tool

async def pay(amount: int) -> dict:
    return dict(await use_ui_tool("Payment", {"amount": amount}))
"""
UP_TO_50: dict[str, Any] = {"pay": [{"when": "arguments.amount <= `50`", "answer": {"verdict": "yes"}}]}
OPENS = {"type": "ui_response", "tool": "Payment", "response_key": "verdict", "match": {"in": ["yes", "ok"]}}


def payments_package(payer: str) -> dict[str, Any]:
    rules = [
        {
            "source_agent": payer,
            "target_agent": "Sender",
            "handoff_type": "condition",
            "condition": "${gate} == 'open'",
        },
        {"source_agent": payer, "target_agent": "terminate", "handoff_type": "after_work"},
        {"source_agent": "Sender", "target_agent": "terminate", "handoff_type": "after_work"},
    ]
    transition = {"from": "pending", "to": "open", "trigger": OPENS}
    gate = {"type": "string", "source": {"type": "state", "default": "pending", "transitions": [transition]}}
    return {
        "orchestrator": {"workflow_name": f"{payer}s", "initial_agent": payer},
        "agents": {"agents": [{"name": name, "system_message": f"You are {name}."} for name in (payer, "Sender")]},
        "tools": {"tools": [{"agent": payer, "file": "pay.py", "function": "pay"}]},
        "tools/pay.py": TOOL,
        "context_variables": {"definitions": {"gate": gate}},
        "handoffs": {"handoff_rules": rules},
    }


def pay_call(amount: int) -> list[dict[str, Any]]:
    return [{"tool_calls": [{"name": "pay", "arguments": {"amount": amount}}]}, {"text": "asked"}]


@pytest.fixture
async def desk(stage: Stage) -> Stage:
    stage.package("Smalls", payments_package("Small"))
    stage.package("Larges", payments_package("Large"))
    stage.answers({"Small": pay_call(12), "Large": pay_call(9_000), "Sender": [{"text": "sent"}]})
    await stage.start_worker()
    return stage


async def wait_for_question(stage: Stage, run_id: str) -> Document:
    async def asks() -> Document | None:
        run = await stage.run(run_id)
        return run if run["state"] == "needs_human" else None

    run: Document = await wait_until(f"{run_id} waits for a person", asks)
    return run


async def test_a_standing_answer_is_used_only_where_its_condition_holds(desk: Stage) -> None:
    small = (await desk.accept("Smalls", ui_responses=UP_TO_50)).run_id
    large = (await desk.accept("Larges", ui_responses=UP_TO_50)).run_id

    paid = await desk.wait_for_end(small)
    asked = await wait_for_question(desk, large)

    assert (paid["state"], await desk.agents_of(small)) == ("succeeded", ["Small", "Sender"])
    [used] = paid["answers"]
    assert (used["standing"], used["question"]["arguments"]) == (True, {"amount": 12})
    assert (asked["question"]["arguments"], asked.get("answers") or []) == ({"amount": 9_000}, [])


@pytest.mark.parametrize(
    ("verdict", "gate", "speakers"),
    [("OK", "open", ["Large", "Sender"]), ("adjust it", "pending", ["Large"]), (None, "pending", ["Large"])],
)
async def test_only_a_yes_opens_the_gate(desk: Stage, verdict: str | None, gate: str, speakers: list[str]) -> None:
    run_id = (await desk.accept("Larges")).run_id
    await wait_for_question(desk, run_id)

    await submit_answer(
        desk.store, desk.wakeups, run_id, question=1, by="ann", responses={"Payment": {"verdict": verdict}}
    )
    run = await desk.wait_for_end(run_id)

    assert (run["state"], run["context"]["gate"]) == ("succeeded", gate)
    assert await desk.agents_of(run_id) == speakers


async def test_a_replay_asks_again_and_takes_over_no_answer(desk: Stage) -> None:
    run_id = (await desk.accept("Larges")).run_id
    await wait_for_question(desk, run_id)
    await submit_answer(
        desk.store, desk.wakeups, run_id, question=1, by="ann", responses={"Payment": {"verdict": "ok"}}
    )
    await desk.wait_for_end(run_id)

    made = await replay(desk.store, desk.wakeups, run_id, by="ann", options=ReplayOptions(repeat_done=True))

    assert made.new_run_id is not None
    again = await wait_for_question(desk, made.new_run_id)
    assert ([each["number"] for each in again["questions"]], again.get("answers") or []) == ([1], [])
