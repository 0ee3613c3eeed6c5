"""Shared estimates: a process starts with the observations of the others."""

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pymongo import AsyncMongoClient

from accounting.budgets.budget_reconciler import BudgetReconciler
from accounting.budgets.estimates import DEFAULT_ANSWER_TOKENS, ESTIMATES, MAX_OBSERVATIONS, EstimateKey, EstimateStore
from accounting.budgets.reservation_types import BudgetExhaustedError
from accounting.budgets.window_accounts import BudgetOptions
from tests.integration.accounting.budgets.reserving_process import (
    ReservingProcess,
    budget_status,
    recorded_spending,
    set_budget,
)
from tests.integration.stage import wait_until
from workers.store.run_store import RunStore

pytestmark = pytest.mark.integration

PROMPT = 30  # characters: ten tokens
TOKENS = 4_000
WRITER = {"workflow": "Digest", "agent": "Writer", "provider": "script", "model": "m"}
ALL = {"workflow": "", "agent": "", "provider": "script", "model": "m"}


def reserved_amount(process: ReservingProcess, *, workflow: str = "Digest", model: str = "m") -> int | None:
    planned = process.plan_call(prompt=PROMPT, model=model)
    return process.keeper.estimate(planned, "tokens", workflow=workflow)


async def open_process(store: RunStore, **options: Any) -> ReservingProcess:
    process = ReservingProcess(store, **options)
    await process.keeper.open()
    return process


async def teach_estimates(store: RunStore, tokens: int = TOKENS, *, calls: int = 1) -> None:
    """Stores observations by a process that has ended."""
    process = await open_process(store)
    for _ in range(calls):
        await process.run().call(tokens=tokens, prompt=PROMPT)
    await process.close()


async def calls_of(store: RunStore, key: dict[str, str]) -> list[list[int]]:
    document = await store.database[ESTIMATES].find_one({"_id": key})
    return [] if document is None else list(document["calls"])


async def spend_by_many(store: RunStore, process: ReservingProcess, *, tokens: int = TOKENS, calls: int = 20) -> int:
    """Spends in many calls at once, as far as they are allowed."""
    runs = [process.run().call(tokens=tokens, prompt=PROMPT, lasting_s=0.3) for _ in range(calls)]
    results = await asyncio.gather(*runs, return_exceptions=True)
    others = [
        result
        for result in results
        if isinstance(result, BaseException) and not isinstance(result, BudgetExhaustedError)
    ]
    assert not others, others
    return await recorded_spending(store)


@pytest.mark.parametrize("has_budget", [True, False])
async def test_a_fresh_process_reserves_what_another_one_has_learnt(store: RunStore, has_budget: bool) -> None:
    """Also from calls without any budget."""
    if has_budget:
        await set_budget(store, 1_000_000)
    await teach_estimates(store)
    await set_budget(store, 1_000_000)

    fresh = await open_process(store)

    assert reserved_amount(fresh) == TOKENS  # from its first call on: a lookup would come later
    begun = await fresh.run().begin(prompt=PROMPT)
    assert (await budget_status(store)).reserved == TOKENS
    assert reserved_amount(fresh, workflow="Other") == TOKENS  # like the calls of the model
    assert reserved_amount(fresh, model="unknown") == 10 + DEFAULT_ANSWER_TOKENS
    await fresh.run().end(begun, tokens=TOKENS)
    await fresh.close()


async def test_a_nearly_spent_budget_is_exceeded_by_one_call_of_a_new_process(store: RunStore) -> None:
    await teach_estimates(store)
    await set_budget(store, 13_000)
    fresh = await open_process(store)

    spent = await spend_by_many(store, fresh)

    assert 13_000 <= spent <= 13_000 + TOKENS
    await fresh.close()


async def test_for_an_unknown_model_calls_start_as_the_first_estimate_allows(
    store: RunStore,
) -> None:
    """What is promised then, and no more."""
    limit, first = 5_100, 10 + DEFAULT_ANSWER_TOKENS
    await set_budget(store, limit)
    cold = await open_process(store)

    spent = await spend_by_many(store, cold)

    assert limit <= spent <= -(-limit // first) * TOKENS
    assert spent > limit + TOKENS  # so it is worth sharing
    await cold.close()


async def test_a_running_process_looks_up_unknown_models_beside_its_call(store: RunStore) -> None:
    running = await open_process(store)
    await teach_estimates(store)

    assert reserved_amount(running) == 10 + DEFAULT_ANSWER_TOKENS  # the call does not wait

    async def is_known() -> bool:
        return reserved_amount(running) == TOKENS

    await wait_until("what another process has learnt is known", is_known, within_s=5)
    await running.close()


async def test_much_is_written_in_few_commands_by_itself(store: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed process writes nothing when it ends."""
    process = await open_process(store, options=BudgetOptions(estimates_interval_s=1.0))
    commands: list[int] = []
    add = EstimateStore.add

    async def counted(self: EstimateStore, learnt: Any) -> None:
        commands.append(len(learnt))
        await add(self, learnt)

    monkeypatch.setattr(EstimateStore, "add", counted)
    planned = process.plan_call(prompt=PROMPT)
    begun = await process.run().begin(prompt=PROMPT)
    call = await process.run().end(begun, tokens=TOKENS)
    for _ in range(500):
        process.keeper.observe(planned, call, workflow="Digest")

    async def is_written() -> bool:
        return len(await calls_of(store, WRITER)) == MAX_OBSERVATIONS

    await wait_until("it is written", is_written, within_s=5)
    assert commands == [2]  # documents: one of the agent, one of the model
    assert await calls_of(store, ALL) == [[TOKENS // 2 - 10, TOKENS // 2]] * MAX_OBSERVATIONS
    await process.close()
    assert commands == [2]


async def test_processes_add_to_what_others_have_learnt_and_the_last_calls_stay(store: RunStore) -> None:
    for tokens in (100, 200):
        await teach_estimates(store, tokens, calls=30)

    answers = [answer for _, answer in await calls_of(store, WRITER)]
    assert answers == [50] * 20 + [100] * 30


async def test_while_the_store_is_away_calls_go_on_and_what_was_learnt_is_kept(
    store: RunStore, caplog: pytest.LogCaptureFixture
) -> None:
    nowhere: AsyncMongoClient[Any] = AsyncMongoClient("mongodb://127.0.0.1:9", serverSelectionTimeoutMS=200)
    process = await open_process(store, options=BudgetOptions(store_timeout_s=0.3))
    estimate_store = process.keeper._estimate_store
    there, estimate_store._estimates = estimate_store._estimates, nowhere["nowhere"][ESTIMATES]
    await process.keeper.shared_estimates.load()
    assert "budget_estimates_not_read" in caplog.text

    await process.run().call(tokens=TOKENS, prompt=PROMPT)
    await process.keeper.shared_estimates.flush()
    assert (reserved_amount(process), process.keeper.estimates.has_unsaved) == (TOKENS, True)

    estimate_store._estimates = there
    await process.close()
    assert len(await calls_of(store, WRITER)) == 1
    await nowhere.close()


async def test_the_last_of_it_is_not_waited_for_when_the_store_hangs(
    store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = await open_process(store, options=BudgetOptions(close_timeout_s=0.3))
    await process.run().call(tokens=TOKENS, prompt=PROMPT)
    monkeypatch.setattr(EstimateStore, "add", lambda *_: asyncio.Event().wait())

    await asyncio.wait_for(process.close(), 3)


async def test_estimates_of_calls_that_are_made_no_more_are_deleted(store: RunStore) -> None:
    now = datetime.now(UTC)
    ages = {"young": 0, "old": 29, "too old": 31}
    kept = [
        {"_id": {**WRITER, "agent": name}, "calls": [[0, 5]], "at": now - timedelta(days=days)}
        for name, days in ages.items()
    ]
    await store.database[ESTIMATES].insert_many(kept)

    async def list_agents() -> set[str]:
        return {document["_id"]["agent"] async for document in store.database[ESTIMATES].find()}

    await BudgetReconciler(store.database).run_pass(Counter())
    assert await list_agents() == {"young", "old"}

    estimate_store = EstimateStore(store.database, max_documents=1)
    await BudgetReconciler(store.database, estimates=estimate_store).run_pass(Counter())
    assert await list_agents() == {"young"}
    assert list(await EstimateStore(store.database).read_newest()) == [EstimateKey("script", "m", "Digest", "young")]


async def test_a_start_reads_the_newest_and_no_more_than_its_bound(store: RunStore) -> None:
    now = datetime.now(UTC)
    kept = [
        {
            "_id": {**WRITER, "agent": f"A{number}", "of_a_newer_version": 1},
            "calls": [[0, 5, 1]],
            "at": now - timedelta(minutes=number),
        }
        for number in range(20)
    ]
    await store.database[ESTIMATES].insert_many(kept)

    read = await EstimateStore(store.database, max_read=5).read_newest()

    assert [key.agent for key in read] == ["A0", "A1", "A2", "A3", "A4"]
