"""Budgets in random but repeatable trouble: processes die, sleep or lose replies."""

import asyncio
from collections import Counter
from datetime import timedelta
from random import Random

import pytest
from pymongo.errors import AutoReconnect

from accounting.budgets.budget_reconciler import FOLD_DELAY_S, LOST_DELAY_S, BudgetReconciler
from accounting.budgets.budget_status import read_statuses
from accounting.budgets.reservation_types import BudgetBusyError, BudgetExhaustedError
from accounting.budgets.window_accounts import BudgetOptions
from accounting.budgets.window_store import RESERVATION_TTL_S
from tests.integration.accounting.budgets.reserving_process import ReservingProcess, recorded_spending, set_budget
from tests.integration.accounting.budgets.test_run_reservations import LossyWindowStore
from workers.store.run_store import RunStore

pytestmark = pytest.mark.integration

LIMIT = 20_000
MOST_TOKENS, CALLERS, PROCESSES, MOST_PROCESSES = 200, 5, 4, 12
TROUBLES = 25
HASTY = BudgetOptions(idle_timeout_s=0.1, flush_delay_s=0.02, store_retry_s=0.02, room_timeout_s=1.0)


class Trouble:
    def __init__(self, store: RunStore, random: Random) -> None:
        self.store = store
        self.random = random
        self.alive: list[ReservingProcess] = []
        self.tasks: dict[ReservingProcess, list[asyncio.Task[None]]] = {}
        self.is_over = False

    def start(self) -> None:
        process = ReservingProcess(self.store, options=HASTY)
        if self.random.random() < 0.5:
            losing = LossyWindowStore(self.store, every=self.random.choice((3, 5, 9)))
            process.keeper.windows = process.keeper.accounts._windows = losing
        self.alive.append(process)
        self.tasks[process] = [asyncio.create_task(self._call(process)) for _ in range(CALLERS)]

    async def _call(self, process: ReservingProcess) -> None:
        random = self.random
        while not self.is_over:
            run = process.run(app_id=random.choice(("acme", "globex")))
            try:
                await run.call(
                    tokens=random.randrange(1, MOST_TOKENS),
                    lasting_s=random.random() * 0.05,
                    prompt=random.randrange(300),
                )
            except BudgetExhaustedError:
                return
            except (AutoReconnect, BudgetBusyError):
                pass
            await asyncio.sleep(random.choice((0, 0.01, 0.3)))

    async def cause_trouble(self) -> None:
        what, process = self.random.random(), self.random.choice(self.alive)
        if what < 0.2 and len(self.tasks) < MOST_PROCESSES:
            self.kill(process)
            self.start()
        elif what < 0.5:
            await self.pass_time(process.holder.id, RESERVATION_TTL_S + LOST_DELAY_S + 1)
        await BudgetReconciler(self.store.database, repeat_interval_s=0.05).run_pass(Counter())

    def kill(self, process: ReservingProcess) -> None:
        self.alive.remove(process)
        for task in (*self.tasks[process], *(account._task for account in process.keeper.accounts._accounts.values())):
            task.cancel()

    async def pass_time(self, holder: str, seconds: float) -> None:
        """Ages the times of this process in the windows."""
        windows, entry = self.store.database["budget_windows"], f"holders.{holder}"
        async for window in windows.find({entry: {"$exists": True}}):
            until = window["holders"][holder]["until"]
            change = {
                "$set": {f"{entry}.until": until - timedelta(seconds=seconds)},
                "$unset": {f"{entry}.summed_at": 1},
            }
            await windows.update_one({"_id": window["_id"], f"{entry}.until": until}, change)

    async def end(self) -> None:
        self.is_over = True
        done = await asyncio.gather(*(task for tasks in self.tasks.values() for task in tasks), return_exceptions=True)
        assert [result for result in done if isinstance(result, Exception)] == []
        for process in self.alive:
            await process.close()
        async for window in self.store.database["budget_windows"].find({"is_held": True}):
            for holder in window["holders"]:
                await self.pass_time(holder, RESERVATION_TTL_S + LOST_DELAY_S + FOLD_DELAY_S)
        await BudgetReconciler(self.store.database, repeat_interval_s=0.05).run_pass(Counter())


@pytest.mark.parametrize("seed", [1, 2])
async def test_through_any_trouble_the_spending_equals_the_ledger(store: RunStore, seed: int) -> None:
    await set_budget(store, LIMIT, app_id="*")
    await set_budget(store, 2 * LIMIT, app_id=None, workflow="Digest")
    trouble = Trouble(store, Random(seed))

    for _ in range(PROCESSES):
        trouble.start()
    for _ in range(TROUBLES):
        await asyncio.sleep(0.05)
        await trouble.cause_trouble()
    await trouble.end()

    found = await read_statuses(store.database)
    ledger = [
        await recorded_spending(store, **({"app_id": status.app_id} if status.app_id else {})) for status in found
    ]
    assert [(status.spent, status.reserved) for status in found] == [(spent, 0) for spent in ledger]
    assert min(ledger) > 0
    most_at_once = MOST_TOKENS * CALLERS * MOST_PROCESSES
    assert max(status.spent - status.limit for status in found) <= most_at_once
