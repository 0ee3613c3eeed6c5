"""Reservations on a real MongoDB: what calls spend in a window, also concurrently."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pymongo import AsyncMongoClient
from pymongo.errors import AutoReconnect, PyMongoError

from accounting.budgets.budget_reconciler import BudgetReconciler
from accounting.budgets.budget_status import read_statuses
from accounting.budgets.budget_store import BudgetStore
from accounting.budgets.effective_budgets import REFRESH_INTERVAL_S, BudgetCache, BudgetWindow
from accounting.budgets.reservation_types import BudgetBusyError, BudgetExhaustedError, BudgetHoldError
from accounting.budgets.window_accounts import BudgetOptions
from accounting.budgets.window_store import ProcessShare, WindowReply, WindowStore
from tests.integration.accounting.budgets.reserving_process import (
    Database,
    ReservedCall,
    ReservingProcess,
    budget_status,
    call_of,
    recorded_spending,
    set_budget,
    wait_for_status,
)
from tests.integration.stage import wait_until
from workers.store.run_store import RunStore

pytestmark = pytest.mark.integration

IMPATIENT = BudgetOptions(refresh_timeout_s=0.3, store_timeout_s=0.3)


@pytest.fixture
async def nowhere() -> AsyncIterator[Database]:
    """A store that is unavailable."""
    client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient("mongodb://127.0.0.1:9", serverSelectionTimeoutMS=200)
    yield client["nowhere"]
    await client.close()


@pytest.fixture
def options() -> BudgetOptions:
    return BudgetOptions()


@pytest.fixture
async def processes(store: RunStore, options: BudgetOptions) -> AsyncIterator[list[ReservingProcess]]:
    both = [ReservingProcess(store, options=options) for _ in range(2)]
    await both[0].keeper.ensure_indexes()
    yield both
    for process in both:
        await process.close()


@pytest.fixture
def process(processes: list[ReservingProcess]) -> ReservingProcess:
    return processes[0]


async def gather_outcomes(calls: list[Awaitable[object]]) -> tuple[int, int]:
    """Counts the calls made and the calls refused; any other error fails the test."""
    results = await asyncio.gather(*calls, return_exceptions=True)
    refused = [result for result in results if isinstance(result, BudgetExhaustedError)]
    others = [each for each in results if isinstance(each, BaseException) and each not in refused]
    assert not others, others
    return len(results) - len(refused), len(refused)


async def test_of_fifty_calls_in_two_processes_as_many_go_as_the_budget_allows(
    store: RunStore, processes: list[ReservingProcess]
) -> None:
    await set_budget(store, 1000)

    made, refused = await gather_outcomes([processes[n % 2].run().call(tokens=100, lasting_s=0.05) for n in range(50)])
    for process in processes:
        await process.close()

    assert (made, refused) == (10, 40)
    assert await recorded_spending(store) == 1000
    now = await budget_status(store)
    assert (now.spent, now.reserved, now.is_exhausted) == (1000, 0, True)


async def test_the_room_that_is_left_is_shared_by_calls_that_go_side_by_side(
    store: RunStore, process: ReservingProcess
) -> None:
    """Calls one after the other would take the sum of their times."""
    await set_budget(store, 2000)
    await process.run().call(tokens=100)

    runs = [process.run() for _ in range(12)]
    under_way = await asyncio.gather(*(run.begin() for run in runs))

    for run, begun in zip(runs, under_way, strict=True):
        await run.end(begun, tokens=100)


async def test_a_call_larger_than_the_remainder_runs_alone_and_is_the_last(
    store: RunStore, process: ReservingProcess
) -> None:
    await set_budget(store, 1000)

    assert await gather_outcomes([process.run().call(tokens=999)]) == (1, 0)
    assert await gather_outcomes([process.run().call(tokens=5000), process.run().call(tokens=5000)]) == (1, 1)
    assert await recorded_spending(store) == 5999


async def test_a_call_waits_for_those_that_hold_the_room_and_gets_the_rest(
    store: RunStore, processes: list[ReservingProcess]
) -> None:
    await set_budget(store, 600)
    holding, waiting = processes[0].run(), processes[1].run()
    begun = await holding.begin(prompt=300)

    waits = asyncio.create_task(waiting.call(tokens=100, prompt=300))

    async def has_asked_again() -> bool:
        return any(its._command_number > 1 for its in processes[1].keeper.accounts._accounts.values())

    await wait_until("the second has asked more than once", has_asked_again)
    assert not waits.done()
    assert (await budget_status(store)).reserved == 600

    await holding.end(begun, tokens=100)
    await waits
    assert await recorded_spending(store) == 200


@pytest.mark.parametrize("options", [BudgetOptions(room_timeout_s=0.4)])
async def test_a_long_wait_ends_as_busy_and_holds_nothing(store: RunStore, processes: list[ReservingProcess]) -> None:
    await set_budget(store, 600)
    await processes[0].run().begin(prompt=300)

    with pytest.raises(BudgetBusyError):
        await processes[1].run().call(prompt=300)

    await processes[1].close()
    assert (await budget_status(store)).reserved == 600


async def test_a_caller_that_gives_up_leaves_nothing_reserved(store: RunStore, process: ReservingProcess) -> None:
    await set_budget(store, 100_000)
    run = process.run()

    for pauses in range(12):  # one step of the loop after another, through a whole reserve
        task = asyncio.create_task(run.begin())
        for _ in range(pauses):
            await asyncio.sleep(0.001)
        task.cancel()
        try:
            begun = await task
        except asyncio.CancelledError:
            continue
        await run.end(begun, tokens=0)

    await wait_for_status(store, "nothing is reserved", lambda now: now.reserved == 0)


@pytest.mark.design("D4-76")
async def test_one_app_does_not_touch_the_other_ones_budget(store: RunStore, process: ReservingProcess) -> None:
    await set_budget(store, 100, app_id="*")

    assert await gather_outcomes([process.run(app_id="acme").call(tokens=100)]) == (1, 0)
    assert await gather_outcomes([process.run(app_id="acme").call(tokens=100)]) == (0, 1)
    assert await gather_outcomes([process.run(app_id="globex").call(tokens=100)]) == (1, 0)

    await process.close()
    assert (await budget_status(store, "acme")).spent == (await budget_status(store, "globex")).spent == 100
    assert (await budget_status(store, "initech")).spent == 0


@pytest.mark.parametrize("options", [BudgetOptions(refresh_interval_s=0.0)])
async def test_an_apps_own_budget_precedes_the_per_app_one_and_both_count(
    store: RunStore, process: ReservingProcess
) -> None:
    await set_budget(store, 100, app_id="*")
    own = await set_budget(store, 300)

    assert await gather_outcomes([process.run().call(tokens=150)]) == (1, 0)
    assert await gather_outcomes([process.run().call(tokens=150)]) == (1, 0)
    assert await gather_outcomes([process.run().call(tokens=1)]) == (0, 1)

    await BudgetStore(store.database).set(own, by="a test")
    await BudgetStore(store.database).remove(own.id)
    assert await gather_outcomes([process.run().call(tokens=1)]) == (0, 1)


async def test_all_apps_of_a_workflow_share_its_budget(store: RunStore, process: ReservingProcess) -> None:
    await set_budget(store, 200, app_id=None, workflow="Digest")

    assert await gather_outcomes([process.run(app_id="acme").call(), process.run(app_id="globex").call()]) == (2, 0)
    assert await gather_outcomes([process.run(app_id="initech").call()]) == (0, 1)
    assert await gather_outcomes([process.run(app_id="initech", workflow="Other").call()]) == (1, 0)


async def test_each_of_several_budgets_needs_room_or_the_others_roll_back(
    store: RunStore, process: ReservingProcess
) -> None:
    await set_budget(store, 10_000)
    await set_budget(store, 100, app_id=None, workflow="Digest")
    await process.run().call(tokens=100)

    assert await gather_outcomes([process.run().call() for _ in range(5)]) == (0, 5)

    await process.close()
    app, workflow = await read_statuses(store.database)
    assert (app.spent, app.reserved) == (workflow.spent, workflow.reserved) == (100, 0)
    assert (app.rejections, workflow.rejections, workflow.rejections_total) == (0, 5, 5)


async def test_a_soft_budget_stops_nothing_and_logs_each_threshold_once(
    store: RunStore, processes: list[ReservingProcess], caplog: pytest.LogCaptureFixture
) -> None:
    await set_budget(store, 1000, soft=True)

    with caplog.at_level(logging.WARNING):
        for n in range(15):
            await processes[n % 2].run().call(tokens=100)
        for process in processes:
            await process.close()

    events = [record.message for record in caplog.records if record.message.startswith("budget_")]
    assert sorted(events) == ["budget_exhausted", "budget_warned"]
    assert (await budget_status(store)).spent == 1500


@pytest.mark.parametrize("options", [BudgetOptions(refresh_interval_s=0.0)])
async def test_a_higher_limit_is_warned_of_anew(
    store: RunStore, process: ReservingProcess, caplog: pytest.LogCaptureFixture
) -> None:
    await set_budget(store, 100)
    with caplog.at_level(logging.WARNING):
        await process.run().call(tokens=100)
        await wait_until("it is logged", lambda: _has_logged(caplog, "budget_exhausted", 1))
        await set_budget(store, 200)
        await process.run().call(tokens=100)
        await wait_until("it is logged again", lambda: _has_logged(caplog, "budget_exhausted", 2))


async def _has_logged(caplog: pytest.LogCaptureFixture, event: str, times: int) -> bool:
    return [record.message for record in caplog.records].count(event) == times


async def test_what_was_spent_before_the_budget_was_set_counts(store: RunStore, process: ReservingProcess) -> None:
    await process.run().call(tokens=400)
    await process.run(app_id="globex").call(tokens=400)
    await set_budget(store, 500)
    other = ReservingProcess(store)

    assert await gather_outcomes([other.run().call(tokens=100)]) == (1, 0)
    assert await gather_outcomes([other.run().call(tokens=100)]) == (0, 1)
    await other.close()


async def test_a_run_is_stopped_at_its_own_budget_by_what_it_has_used_itself(
    store: RunStore, process: ReservingProcess
) -> None:
    await set_budget(store, 1000, window="run")

    assert await gather_outcomes([process.run(used=999).call()]) == (1, 0)
    assert await gather_outcomes([process.run(used=1000).call()]) == (0, 1)
    assert await store.database["budget_windows"].count_documents({"budget_id": {"$exists": True}}) == 0


@pytest.mark.parametrize(("running", "error"), [("stop", BudgetExhaustedError), ("hold", BudgetHoldError)])
async def test_a_spent_budget_stops_a_run_or_holds_it_until_the_next_window(
    store: RunStore, process: ReservingProcess, running: str, error: type[Exception]
) -> None:
    await set_budget(store, 10, window="day", running=running, timezone="Europe/Berlin")
    await process.run().call(tokens=10)

    with pytest.raises(error, match=r"app:acme/day/tokens is spent: 10 tokens of 10 tokens, until .* Europe/Berlin"):
        await process.run().call()


@pytest.mark.parametrize(
    ("new_runs", "running", "error"),
    [("hold", "stop", BudgetHoldError), ("refuse", "hold", BudgetExhaustedError)],
)
async def test_a_run_without_a_model_call_yet_is_a_new_one(
    store: RunStore, process: ReservingProcess, new_runs: str, running: str, error: type[Exception]
) -> None:
    await set_budget(store, 10, new_runs=new_runs, running=running)
    await process.run().call(tokens=10)

    with pytest.raises(error):
        await process.run(is_new=True).call()


async def test_a_call_denied_by_a_lowered_limit_reports_the_budget_as_spent(
    store: RunStore, process: ReservingProcess, caplog: pytest.LogCaptureFixture
) -> None:
    await set_budget(store, 1000)
    await process.run().call(tokens=100)
    await process.close()
    await set_budget(store, 50)
    other = ReservingProcess(store)

    barred = [await other.keeper.check_start("acme", "Digest", is_first_start=True) for _ in range(2)]
    await other.close()

    assert None not in barred
    assert [record.message for record in caplog.records].count("budget_exhausted") == 1


async def test_in_usd_a_call_costs_what_its_row_shows(store: RunStore, process: ReservingProcess) -> None:
    await set_budget(store, 1, unit="usd")

    await process.run().call(tokens=1000)
    await process.close()

    rows = await store.database["usage"].find().to_list(None)
    assert (await budget_status(store)).spent == rows[0]["cost_nano_usd"] == 500 * 1000 + 500 * 2000


@pytest.mark.parametrize("window", ["total", "run"])
async def test_without_a_price_a_budget_in_usd_names_the_missing_one(
    store: RunStore, process: ReservingProcess, window: str
) -> None:
    await set_budget(store, 1, unit="usd", window=window)

    with pytest.raises(BudgetExhaustedError, match=r"no price is known for script/unheard-of.*`prices`"):
        await process.run().call(model="unheard-of")


async def test_without_a_price_a_fail_open_budget_admits_and_logs(
    store: RunStore, caplog: pytest.LogCaptureFixture
) -> None:
    await set_budget(store, 1, unit="usd")
    process = ReservingProcess(store, fails_open=True)

    with caplog.at_level(logging.WARNING):
        await process.run().call(model="unheard-of")
        await process.run().call(model="unheard-of")

    assert [record.message for record in caplog.records].count("budget_without_price") == 1
    await process.close()


async def test_what_was_spent_before_a_budget_that_was_first_used_unasked_counts(
    store: RunStore, nowhere: Database
) -> None:
    process = ReservingProcess(store, fails_open=True, options=IMPATIENT)
    await process.run().call(tokens=400)
    await set_budget(store, 500)
    process.move_to(store.database)
    await process.keeper.cache.effective_budgets("acme", "Digest")
    process.move_to(nowhere)
    begun = await process.run().begin()
    process.move_to(store.database)
    account_of = [*process.keeper.accounts._accounts.values()]
    await begun.settle(call_of(begun, tokens=10))
    await process.close()
    assert len(account_of) == 1

    await BudgetReconciler(store.database, repeat_interval_s=-1).run_pass(Counter())

    assert (await budget_status(store)).spent == 410


@pytest.mark.parametrize("is_known", [True, False])
async def test_while_the_store_is_away_nothing_is_allowed_unless_configured(
    store: RunStore, nowhere: Database, is_known: bool, caplog: pytest.LogCaptureFixture
) -> None:
    await set_budget(store, 1000)
    closed, opened = (ReservingProcess(store, fails_open=is_open, options=IMPATIENT) for is_open in (False, True))
    for process in (closed, opened):
        if is_known:
            await process.keeper.cache.effective_budgets("acme", "Digest")
        process.move_to(nowhere)

    with caplog.at_level(logging.WARNING):
        with pytest.raises(PyMongoError):
            await closed.run().budgets.reserve(closed.plan_call())
        await opened.run().budgets.reserve(opened.plan_call())

    assert "budget_not_asked" in [record.message for record in caplog.records]
    assert bool(opened.keeper.accounts._accounts) is is_known
    for process in (closed, opened):
        await process.close()


async def test_many_budgets_of_a_store_that_is_away_are_waited_for_like_one(store: RunStore, nowhere: Database) -> None:
    """Otherwise no unchecked call could be made: its chat waits only so long."""
    for window in ("hour", "day", "month", "total"):
        await set_budget(store, 1000, window=window)
    process = ReservingProcess(store, fails_open=True, options=replace(IMPATIENT, room_timeout_s=0.6))
    await process.keeper.cache.effective_budgets("acme", "Digest")
    process.move_to(nowhere)
    run, planned = process.run(), process.plan_call()

    settle = await run.budgets.reserve(planned)

    process.move_to(store.database)
    await run.end(ReservedCall(planned, settle, datetime.now(UTC)), tokens=70)
    await wait_until("all are told", lambda: has_reported(store, [70] * 4))
    await process.close()


async def has_reported(store: RunStore, spent: list[int]) -> bool:
    return [status.spent for status in await read_statuses(store.database)] == spent


async def test_unreserved_spending_is_reported_when_the_store_is_back(store: RunStore, nowhere: Database) -> None:
    await set_budget(store, 1000)
    process = ReservingProcess(store, fails_open=True, options=IMPATIENT)
    await process.keeper.cache.effective_budgets("acme", "Digest")
    process.move_to(nowhere)
    run = process.run()
    planned = process.plan_call()
    settle = await run.budgets.reserve(planned)

    process.move_to(store.database)
    await run.end(ReservedCall(planned, settle, datetime.now(UTC)), tokens=70)

    await wait_for_status(store, "it is told", lambda now: now.spent == 70)
    await process.close()


class LossyWindowStore(WindowStore):
    """Carries out each command, and drops every n-th reply."""

    def __init__(self, store: RunStore, *, every: int = 2) -> None:
        super().__init__(store.database)
        self.every = every
        self.commands = 0

    async def send_share(
        self, place: BudgetWindow, part: ProcessShare, asked: Any = (), *, limit: int | None = None
    ) -> WindowReply:
        answer = await super().send_share(place, part, asked, limit=limit)
        self._lose()
        return answer

    async def leave(self, place: BudgetWindow, part: ProcessShare) -> None:
        await super().leave(place, part)
        self._lose()

    def _lose(self) -> None:
        self.commands += 1
        if self.commands % self.every == 0:
            raise AutoReconnect("the answer is lost")


async def test_answers_that_get_lost_change_no_sum(store: RunStore) -> None:
    await set_budget(store, 100_000)
    hasty = BudgetOptions(store_retry_s=0.01, flush_delay_s=0.01, idle_timeout_s=0.02)
    process = ReservingProcess(store, options=hasty)
    losing = LossyWindowStore(store)
    process.keeper.accounts._windows = losing  # the connection between a process and its store
    made = 0
    for _ in range(30):
        try:
            await process.run().call(tokens=10)
        except AutoReconnect:
            await asyncio.sleep(0.005)
        else:
            made += 1

    assert made >= 10
    await wait_for_status(
        store, "all is told and nothing held", lambda now: (now.spent, now.reserved) == (10 * made, 0)
    )
    await process.close()
    await wait_for_status(store, "nobody is in it", lambda now: (now.spent, now.reserved) == (10 * made, 0))


async def test_without_a_matching_budget_a_call_asks_the_store_nothing(
    store: RunStore, nowhere: Database, process: ReservingProcess
) -> None:
    await set_budget(store, 10, app_id="globex")
    await process.keeper.cache.effective_budgets("acme", "Digest")
    process.keeper.windows._windows = nowhere["budget_windows"]

    settles = [await process.run().budgets.reserve(process.plan_call()) for _ in range(100)]

    assert len(settles) == 100
    assert process.keeper.accounts._accounts == {}


async def test_a_window_that_turns_has_all_its_room_again(store: RunStore) -> None:
    """By the clock of the process: before midnight in Berlin, on a day of clock change."""
    times = [datetime(2026, 3, 29, 21, 59, tzinfo=UTC)]
    await set_budget(store, 100, window="day", timezone="Europe/Berlin")
    await store.database["budgets"].update_many({}, {"$set": {"since": times[0] - timedelta(days=9)}})
    process = ReservingProcess(store, clock=lambda: times[-1])

    assert await gather_outcomes([process.run().call(tokens=100)]) == (1, 0)
    assert await gather_outcomes([process.run().call(tokens=100)]) == (0, 1)
    times.append(datetime(2026, 3, 29, 21, 59, 59, 999_999, tzinfo=UTC))
    assert await gather_outcomes([process.run().call(tokens=100)]) == (0, 1)
    times.append(datetime(2026, 3, 29, 22, tzinfo=UTC))
    assert await gather_outcomes([process.run().call(tokens=100)]) == (1, 0)
    await process.close()


async def test_definitions_are_read_every_two_seconds_and_survive_an_outage(store: RunStore, nowhere: Database) -> None:
    cache = BudgetCache(BudgetStore(store.database), refresh_timeout_s=0.3)
    assert await cache.effective_budgets("acme", "Digest") == ()
    await set_budget(store, 10)
    assert await cache.effective_budgets("acme", "Digest") == ()

    cache._read_at -= REFRESH_INTERVAL_S
    [found] = await cache.effective_budgets("acme", "Digest")

    cache._budgets = BudgetStore(nowhere)
    cache._read_at -= REFRESH_INTERVAL_S
    assert await cache.effective_budgets("acme", "Digest") == (found,)


@pytest.mark.parametrize("options", [BudgetOptions(max_requests=3)])
async def test_reservations_beyond_one_command_wait_in_order_and_retry(
    store: RunStore, process: ReservingProcess, options: BudgetOptions
) -> None:
    await set_budget(store, 600)
    holding = process.run()
    begun = await holding.begin(prompt=300)
    order: list[int] = []

    async def one(number: int) -> None:
        await process.run().call(tokens=10)
        order.append(number)

    waiting = [asyncio.create_task(one(number)) for number in range(8)]
    await wait_for_status(store, "they have asked", lambda now: now.reserved == 600)
    [its] = process.keeper.accounts._accounts.values()
    first, began = its._command_number, time.monotonic()

    async def has_asked_again() -> bool:
        return its._command_number >= first + 3

    await wait_until("they ask again", has_asked_again)
    assert time.monotonic() - began >= 2 * options.room_retry_s

    await holding.end(begun, tokens=10)
    await asyncio.gather(*waiting)
    assert order == sorted(order)


async def test_a_run_is_warned_of_its_own_budget_once(
    store: RunStore, process: ReservingProcess, caplog: pytest.LogCaptureFixture
) -> None:
    await set_budget(store, 100, window="run", soft=True)
    run = process.run()

    with caplog.at_level(logging.WARNING):
        for used in (79, 80, 85, 100, 200):
            run.used = used
            await run.call()

    assert [record.message for record in caplog.records] == ["budget_warned", "budget_exhausted"]
