"""Budgets on real workers: concurrent spending, and runs after the budget is spent."""

import asyncio
import re
import signal
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from accounting.budgets.budget import Budget, parse_budget
from accounting.budgets.budget_reconciler import LOST_DELAY_S, REPEAT_INTERVAL_S
from accounting.budgets.budget_status import BudgetStatus, read_statuses
from accounting.budgets.budget_store import BudgetStore
from accounting.budgets.window_store import RESERVATION_TTL_S
from tests.integration.accounting.budgets.reserving_process import age_windows
from tests.integration.stage import Document, Stage, relay, wait_until
from workers.control.change_result import RefusedError
from workers.control.run_retry import retry_now

pytestmark = pytest.mark.integration

CALL_TOKENS = 100
USAGE = {"input": 60, "output": 40}


def answer(**fields: Any) -> dict[str, Any]:
    return {"text": "ok", "usage": USAGE, **fields}


async def set_budget(stage: Stage, limit: float, **fields: Any) -> Budget:
    given = {"app_id": "acme", "window": "total", "unit": "tokens", **fields}
    budget = parse_budget(limit=limit, **given)
    await BudgetStore(stage.store.database).set(budget, by="a test")
    return budget


async def budget_status(stage: Stage) -> BudgetStatus:
    [found] = await read_statuses(stage.store.database)
    return found


async def recorded_spending(stage: Stage, **query: Any) -> int:
    rows = await stage.store.database["usage"].find(query).to_list(None)
    return sum(row["input_tokens"] + row["output_tokens"] for row in rows)


async def test_fifty_runs_at_once_spend_a_budget_for_ten_and_no_more(stage: Stage) -> None:
    stage.package("Relay", relay("Relay", ["A"]))
    stage.answers({}, default=answer(delay_s=0.2))
    await set_budget(stage, 10 * CALL_TOKENS)
    await stage.start_worker()
    await stage.start_worker()

    accepted = await asyncio.gather(*(stage.accept("Relay") for _ in range(50)))

    async def all_settled() -> list[Document]:
        runs = await stage.store.runs.find({}, {"state": 1, "hold": 1, "outcome": 1}).to_list(None)
        return runs if all(run["state"] in ("succeeded", "failed") or run["hold"] for run in runs) else []

    runs = await wait_until("every run has ended or is held", all_settled)
    assert len(accepted) == len(runs) == 50
    spent = await recorded_spending(stage)
    assert 10 * CALL_TOKENS <= spent <= 11 * CALL_TOKENS
    made = spent // CALL_TOKENS
    assert Counter(run["state"] for run in runs) == {"succeeded": made, "queued": 50 - made}

    async def matches_ledger() -> bool:
        now = await budget_status(stage)
        return now.spent == spent and now.reserved == 0 and now.is_exhausted

    await wait_until("the budget says what the ledger says", matches_ledger)


async def wait_for_hold(stage: Stage, run_id: str) -> Document:
    async def is_held() -> Document | None:
        run = await stage.run(run_id)
        return run if run["hold"] else None

    run: Document = await wait_until(f"{run_id} is held", is_held)
    return run


async def update_budget(stage: Stage, budget: Budget, **changes: Any) -> None:
    await BudgetStore(stage.store.database).set(replace(budget, **changes), by="a test")


@pytest.mark.design("D4-83")
@pytest.mark.parametrize("change", ["raised", "removed", "soft", "own"])
async def test_new_runs_wait_while_all_is_spent_and_go_on_when_it_is_not(stage: Stage, change: str) -> None:
    stage.package("Relay", relay("Relay", ["A"]))
    stage.answers({}, default=answer())
    budget = await set_budget(stage, CALL_TOKENS, app_id="*" if change == "own" else "acme")
    await stage.start_worker()
    assert (await stage.wait_for_end((await stage.accept("Relay")).run_id))["state"] == "succeeded"

    waiting = (await stage.accept("Relay")).run_id
    run = await wait_for_hold(stage, waiting)
    other = await stage.wait_for_end((await stage.accept("Relay", app_id="globex")).run_id)

    assert (run["state"], run["hold"], run["held_by"]) == ("queued", "budget", f"budget:{budget.id}")
    assert (run["started_at"], run["attempt"], run.get("held_until")) == (None, 1, None)
    assert other["state"] == "succeeded"
    with pytest.raises(RefusedError, match=f"held by the budget {re.escape(budget.id)}; it starts as soon as there is"):
        await retry_now(stage.store, stage.wakeups, waiting, by="a test")
    assert [usage["app_id"] for usage in await stage.store.database["usage"].find().to_list(None)].count("acme") == 1

    if change == "removed":
        await BudgetStore(stage.store.database).remove(budget.id)
    elif change == "own":
        await set_budget(stage, 10_000, app_id="acme")
    else:
        await update_budget(stage, budget, **({"limit": 10_000} if change == "raised" else {"soft": True}))
    run = await stage.reconcile_until_end(waiting)
    assert (run["state"], run["hold"], "held_by" in run, "held_until" in run) == ("succeeded", None, False, False)


async def test_new_runs_are_refused_before_anything_of_them_is_loaded(stage: Stage) -> None:
    stage.package("Relay", relay("Relay", ["A"]))
    stage.answers({}, default=answer())
    await set_budget(stage, CALL_TOKENS, new_runs="refuse", window="month", timezone="Europe/Berlin")
    await stage.start_worker()
    await stage.wait_for_end((await stage.accept("Relay")).run_id)

    refused = [await stage.wait_for_end((await stage.accept("Relay")).run_id) for _ in range(2)]

    assert {(run["state"], run["outcome"]["kind"], run["turn"]) for run in refused} == {
        ("failed", "budget_exhausted", 0)
    }
    assert "app:acme/month/tokens is spent: 100 tokens of 100 tokens" in refused[0]["outcome"]["reason"]
    assert refused[0]["usage"]["calls"] == 0

    async def counted() -> bool:
        now = await budget_status(stage)
        return (now.rejections, now.rejections_total) == (2, 2)

    await wait_until("both are counted", counted)


async def test_a_running_run_stops_at_its_next_call(stage: Stage) -> None:
    stage.package("Relay", relay("Relay", ["A", "B", "C"]))
    stage.answers({}, default=answer())
    await set_budget(stage, 2 * CALL_TOKENS)
    await stage.start_worker()

    run = await stage.wait_for_end((await stage.accept("Relay")).run_id)

    assert (run["state"], run["outcome"]["kind"], run["turn"]) == ("failed", "budget_exhausted", 2)
    assert run["outcome"]["error"]["agent"] == "C"
    assert await recorded_spending(stage) == 2 * CALL_TOKENS


async def test_a_running_run_may_wait_and_goes_on_after_its_last_turn(stage: Stage) -> None:
    stage.package("Relay", relay("Relay", ["A", "B", "C"]))
    stage.answers({}, default=answer())
    budget = await set_budget(stage, 2 * CALL_TOKENS, running="hold", window="day")
    await stage.start_worker()
    run_id = (await stage.accept("Relay")).run_id

    run = await wait_for_hold(stage, run_id)
    assert (run["state"], run["turn"], run["attempt"]) == ("queued", 2, 1)
    assert run["started_at"] is not None
    assert run["held_until"] == (await budget_status(stage)).end
    assert run["history"][-1]["ended"] == "held"

    await update_budget(stage, budget, limit=10_000)
    run = await stage.reconcile_until_end(run_id)

    assert (run["state"], run["attempt"]) == ("succeeded", 1)
    assert await stage.agents_of(run_id) == ["A", "B", "C"]
    assert [row["agent"] for row in await stage.usage_rows(run_id)] == ["A", "B", "C"]


COUNT = "def count(n: int) -> str:\n    return str(n)\n"


@pytest.mark.parametrize("window", ["run", "hour"])
async def test_an_endless_loop_of_tools_ends_with_its_budget(stage: Stage, window: str) -> None:
    package = relay("Loop", ["A"], limits={"tool_calls": 1000, "model_calls": 1000})
    package["tools"] = {"tools": [{"agent": "A", "file": "count.py", "function": "count"}]}
    stage.package("Loop", {**package, "tools/count.py": COUNT})
    calls = [{"tool_calls": [{"name": "count", "arguments": {"n": n}}], "usage": USAGE} for n in range(40)]
    stage.answers({"A": calls})
    await set_budget(stage, 7 * CALL_TOKENS + 1, window=window)
    await stage.start_worker()

    run = await stage.wait_for_end((await stage.accept("Loop")).run_id)

    assert (run["state"], run["outcome"]["kind"]) == ("failed", "budget_exhausted")
    assert await recorded_spending(stage) == 8 * CALL_TOKENS


async def wait_until_status_matches_ledger(stage: Stage) -> None:
    reconciler = stage.reconciler()

    async def matches_ledger() -> bool:
        await reconciler.run_pass()
        now = await budget_status(stage)
        return now.reserved == 0 and now.spent == await recorded_spending(stage)

    await wait_until("nothing is reserved, and what is spent is what the ledger says", matches_ledger)


async def test_nothing_of_a_killed_worker_is_left_when_its_reservations_end(stage: Stage) -> None:
    stage.package("Relay", relay("Relay", ["A", "B"]))
    stage.answers({"A": [answer()] * 60, "B": [answer(delay_s=0.5)] * 60})
    await set_budget(stage, 2_000)
    worker = await stage.start_worker()
    runs = [(await stage.accept("Relay")).run_id for _ in range(6)]

    async def in_the_middle() -> bool:
        now = await budget_status(stage)
        return now.reserved > 0 and await recorded_spending(stage) >= 3 * CALL_TOKENS

    await wait_until("calls are under way", in_the_middle)
    worker.send_signal(signal.SIGKILL)
    await worker.wait()
    assert (await budget_status(stage)).reserved > 0
    await age_windows(stage.store, RESERVATION_TTL_S + LOST_DELAY_S + 1)
    await wait_until_status_matches_ledger(stage)

    await stage.start_worker()
    for run_id in runs:
        assert (await stage.reconcile_until_end(run_id))["state"] == "succeeded"
    await wait_until_status_matches_ledger(stage)
    assert (await budget_status(stage)).spent <= 2_000 + CALL_TOKENS


async def test_a_worker_asleep_past_its_reservations_counts_each_call_once(stage: Stage) -> None:
    stage.package("Relay", relay("Relay", ["A", "B"]))
    stage.answers({}, default=answer(delay_s=0.4))
    await set_budget(stage, 100_000)
    sleeper = await stage.start_worker()
    runs = [(await stage.accept("Relay")).run_id for _ in range(6)]

    async def in_the_middle() -> bool:
        return (await budget_status(stage)).reserved > 0

    await wait_until("calls are under way", in_the_middle)
    sleeper.send_signal(signal.SIGSTOP)
    await age_windows(stage.store, RESERVATION_TTL_S + LOST_DELAY_S + 1)
    await wait_until_status_matches_ledger(stage)
    await stage.start_worker()
    for run_id in runs:
        assert (await stage.reconcile_until_end(run_id))["state"] == "succeeded"
    sleeper.send_signal(signal.SIGCONT)
    more = [(await stage.accept("Relay")).run_id for _ in range(6)]
    for run_id in more:
        assert (await stage.reconcile_until_end(run_id))["state"] == "succeeded"

    async def nothing_is_open() -> bool:
        return await stage.store.database["usage"].count_documents({"rollup": 0, "holder": {"$exists": True}}) == 0

    await wait_until("the sleeper has recorded what it had asked", nothing_is_open)
    await age_windows(stage.store, REPEAT_INTERVAL_S + 1)
    await wait_until_status_matches_ledger(stage)
    assert len(await stage.store.database["usage"].distinct("holder")) >= 2


async def test_a_worker_that_starts_reserves_what_the_one_before_it_has_learnt(stage: Stage) -> None:
    """Estimates also come from calls without a budget. A cold worker would let twelve of these runs call at once."""
    tokens = 3_060
    stage.package("Relay", relay("Relay", ["A"]))
    stage.answers({}, default={"text": "ok", "delay_s": 0.3, "usage": {"input": 60, "output": 3_000}})
    first = await stage.start_worker()
    await stage.wait_for_end((await stage.accept("Relay")).run_id)
    first.send_signal(signal.SIGTERM)
    await first.wait()
    await set_budget(stage, tokens + 7_000)
    await stage.start_worker()

    accepted = [(await stage.accept("Relay")).run_id for _ in range(20)]

    async def all_settled() -> bool:
        runs = await stage.store.runs.find({"_id": {"$in": accepted}}, {"state": 1, "hold": 1}).to_list(None)
        return all(run["state"] in ("succeeded", "failed") or run["hold"] for run in runs)

    await wait_until("every run has ended or is held", all_settled)
    spent = await recorded_spending(stage) - tokens
    assert 7_000 <= spent <= 7_000 + tokens
