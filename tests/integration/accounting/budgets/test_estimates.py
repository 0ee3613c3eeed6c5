"""Estimates in the store: what one process has learnt about calls, others reserve, from their first call on."""

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pymongo import AsyncMongoClient

from accounting.budgets import estimate_store, shared_estimates
from accounting.budgets.asking import BudgetExhaustedError
from accounting.budgets.estimate_store import COLLECTION, EstimateStore
from accounting.budgets.estimating import FIRST_ANSWER, LATELY, EstimateKey
from accounting.budgets.mending import BudgetMending
from tests.integration.accounting.budgets.process import Process, recorded, set_budget, standing
from tests.integration.stage import until
from workers.store.run_store import RunStore

pytestmark = pytest.mark.integration

PROMPT = 30  # characters: ten tokens
TOKENS = 4_000
WRITER = {"workflow": "Digest", "agent": "Writer", "provider": "script", "model": "m"}
ALL = {"workflow": "", "agent": "", "provider": "script", "model": "m"}


def reserves(process: Process, *, workflow: str = "Digest", model: str = "m") -> int | None:
    planned = process.planned(prompt=PROMPT, model=model)
    return process.keeper.estimate(planned, "tokens", workflow=workflow)


async def opened(store: RunStore, **more: Any) -> Process:
    process = Process(store, **more)
    await process.keeper.open()
    return process


async def taught(store: RunStore, tokens: int = TOKENS, *, calls: int = 1) -> None:
    """By a process that has ended."""
    process = await opened(store)
    for _ in range(calls):
        await process.run().call(tokens=tokens, prompt=PROMPT)
    await process.close()


async def calls_of(store: RunStore, key: dict[str, str]) -> list[list[int]]:
    document = await store.database[COLLECTION].find_one({"_id": key})
    return [] if document is None else list(document["calls"])


async def spent_by_many(store: RunStore, process: Process, *, tokens: int = TOKENS, calls: int = 20) -> int:
    """All at once, as far as they are allowed."""
    runs = [process.run().call(tokens=tokens, prompt=PROMPT, lasting_s=0.3) for _ in range(calls)]
    results = await asyncio.gather(*runs, return_exceptions=True)
    others = [
        each for each in results if isinstance(each, BaseException) and not isinstance(each, BudgetExhaustedError)
    ]
    assert not others, others
    return await recorded(store)


@pytest.mark.parametrize("has_budget", [True, False])
async def test_a_fresh_process_reserves_what_another_one_has_learnt(store: RunStore, has_budget: bool) -> None:
    """Also from calls that no budget was asked for."""
    if has_budget:
        await set_budget(store, 1_000_000)
    await taught(store)
    await set_budget(store, 1_000_000)

    fresh = await opened(store)

    assert reserves(fresh) == TOKENS  # from its first call on: what it had to look up would come later
    begun = await fresh.run().begin(prompt=PROMPT)
    assert (await standing(store)).reserved == TOKENS
    assert reserves(fresh, workflow="Other") == TOKENS  # as calls of the model take
    assert reserves(fresh, model="unknown") == 10 + FIRST_ANSWER
    await fresh.run().end(begun, tokens=TOKENS)
    await fresh.close()


async def test_a_budget_that_is_nearly_spent_is_exceeded_by_one_call_of_a_fresh_process(store: RunStore) -> None:
    await taught(store)
    await set_budget(store, 13_000)
    fresh = await opened(store)

    spent = await spent_by_many(store, fresh)

    assert 13_000 <= spent <= 13_000 + TOKENS
    await fresh.close()


async def test_where_no_process_knows_a_model_as_many_calls_go_at_once_as_fit_by_the_first_estimate(
    store: RunStore,
) -> None:
    """What is promised then, and no more."""
    limit, first = 5_100, 10 + FIRST_ANSWER
    await set_budget(store, limit)
    cold = await opened(store)

    spent = await spent_by_many(store, cold)

    assert limit <= spent <= -(-limit // first) * TOKENS
    assert spent > limit + TOKENS  # so this is worth telling
    await cold.close()


async def test_what_a_running_process_does_not_know_it_looks_up_beside_its_call(store: RunStore) -> None:
    running = await opened(store)
    await taught(store)

    assert reserves(running) == 10 + FIRST_ANSWER  # nothing is waited for

    async def is_known() -> bool:
        return reserves(running) == TOKENS

    await until("what another process has learnt is known", is_known, within_s=5)
    await running.close()


async def test_much_is_written_in_few_commands_by_itself(store: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is killed writes no more when it ends."""
    monkeypatch.setattr(shared_estimates, "WRITE_EVERY_S", 0.2)
    process = await opened(store)
    commands: list[int] = []
    add = EstimateStore.add

    async def counted(self: EstimateStore, learnt: Any) -> None:
        commands.append(len(learnt))
        await add(self, learnt)

    monkeypatch.setattr(EstimateStore, "add", counted)
    planned = process.planned(prompt=PROMPT)
    begun = await process.run().begin(prompt=PROMPT)
    call = await process.run().end(begun, tokens=TOKENS)
    for _ in range(500):
        process.keeper.learn(planned, call, workflow="Digest")

    async def is_written() -> bool:
        return len(await calls_of(store, WRITER)) == LATELY

    await until("it is written", is_written, within_s=5)
    assert commands == [2]  # documents: of the agent, and of the model
    assert await calls_of(store, ALL) == [[TOKENS // 2 - 10, TOKENS // 2]] * LATELY
    await process.close()
    assert commands == [2]


async def test_processes_add_to_what_others_have_learnt_and_the_last_calls_stay(store: RunStore) -> None:
    for tokens in (100, 200):
        await taught(store, tokens, calls=30)

    answers = [answer for _, answer in await calls_of(store, WRITER)]
    assert answers == [50] * 20 + [100] * 30


async def test_while_the_store_is_away_calls_go_on_and_what_was_learnt_is_kept(
    store: RunStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(estimate_store, "STORE_WITHIN_S", 0.3)
    nowhere: AsyncMongoClient[Any] = AsyncMongoClient("mongodb://127.0.0.1:9", serverSelectionTimeoutMS=200)
    process = await opened(store)
    estimates = process.keeper._estimate_store
    there, estimates._estimates = estimates._estimates, nowhere["nowhere"][COLLECTION]
    await process.keeper.shared_estimates.open()
    assert "budget_estimates_not_read" in caplog.text

    await process.run().call(tokens=TOKENS, prompt=PROMPT)
    await process.keeper.shared_estimates.write()
    assert (reserves(process), process.keeper.estimates.has_unsaved) == (TOKENS, True)

    estimates._estimates = there
    await process.close()
    assert len(await calls_of(store, WRITER)) == 1
    await nowhere.close()


async def test_the_last_of_it_is_not_waited_for_when_the_store_hangs(
    store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = await opened(store)
    await process.run().call(tokens=TOKENS, prompt=PROMPT)
    monkeypatch.setattr(EstimateStore, "add", lambda *_: asyncio.Event().wait())
    monkeypatch.setattr("accounting.budgets.keeper.CLOSES_WITHIN_S", 0.3)

    await asyncio.wait_for(process.close(), 3)


async def test_estimates_of_calls_that_are_made_no_more_are_deleted(
    store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = datetime.now(UTC)
    ages = {"young": 0, "old": 29, "too old": 31}
    kept = [
        {"_id": {**WRITER, "agent": name}, "calls": [[0, 5]], "at": now - timedelta(days=days)}
        for name, days in ages.items()
    ]
    await store.database[COLLECTION].insert_many(kept)

    async def left() -> set[str]:
        return {each["_id"]["agent"] async for each in store.database[COLLECTION].find()}

    await BudgetMending(store.database).run_pass(Counter())
    assert await left() == {"young", "old"}

    monkeypatch.setattr(estimate_store, "MAX_KEPT", 1)
    await BudgetMending(store.database).run_pass(Counter())
    assert await left() == {"young"}
    assert list(await EstimateStore(store.database).read_newest()) == [EstimateKey("script", "m", "Digest", "young")]


async def test_a_start_reads_the_newest_and_no_more_than_its_bound(
    store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = datetime.now(UTC)
    kept = [
        {
            "_id": {**WRITER, "agent": f"A{number}", "of_a_newer_version": 1},
            "calls": [[0, 5, 1]],
            "at": now - timedelta(minutes=number),
        }
        for number in range(20)
    ]
    await store.database[COLLECTION].insert_many(kept)
    monkeypatch.setattr(estimate_store, "MAX_READ", 5)

    read = await EstimateStore(store.database).read_newest()

    assert [key.agent for key in read] == ["A0", "A1", "A2", "A3", "A4"]
