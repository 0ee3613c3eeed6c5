"""The keeper of budgets in a process: what all its runs share when they ask for room and when they are let in.

A run asks before each call (`of_run`), and who lets runs start asks whether the budgets of one are spent (`barred`).
Where no budget matches, the store is not asked.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextvars import Context
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import PyMongoError

from accounting.budgets.alerts import BudgetAlerts, describe_spent
from accounting.budgets.budget import Budget, Unit
from accounting.budgets.budget_store import BudgetStore
from accounting.budgets.effective_budgets import BudgetCache, BudgetWindow, EffectiveBudget
from accounting.budgets.estimates import Estimates, EstimateStore, SharedEstimates
from accounting.budgets.reservation_types import PlannedCall
from accounting.budgets.window_accounts import ReserverIdentity, WindowAccounts
from accounting.budgets.window_store import WindowReply, WindowStore
from accounting.prices import PriceTable
from accounting.usage import ModelCall

log = logging.getLogger(__name__)

LOG_INTERVAL_S = 60.0
CLOSES_WITHIN_S = 1.5
HELD_BY_PREFIX = "budget:"


FLUSH_DELAY_S = 0.3


class RejectionCounter:
    def __init__(self, windows: WindowStore) -> None:
        self._windows = windows
        self._counts: dict[str, tuple[BudgetWindow, int]] = {}
        self._flush_task: asyncio.Task[None] | None = None

    def count(self, window: BudgetWindow) -> None:
        _, before = self._counts.get(window.id, (window, 0))
        self._counts[window.id] = window, before + 1
        if self._flush_task is None:
            self._flush_task = asyncio.create_task(self._flush_later(), context=Context())  # of no one run

    async def close(self) -> None:
        if self._flush_task is not None:
            await asyncio.wait([self._flush_task])

    async def _flush_later(self) -> None:
        try:
            while self._counts:
                await asyncio.sleep(FLUSH_DELAY_S)
                await self._flush()
        finally:
            self._flush_task = None

    async def _flush(self) -> None:
        counts, self._counts = self._counts, {}
        if not counts:
            return
        try:
            await self._windows.add_rejections([*counts.values()])
        except PyMongoError as error:
            log.warning("budget_rejections_not_counted", extra={"error": type(error).__name__})


@dataclass(frozen=True, slots=True)
class StartDenied:
    """Why a run may not start. `held_by` is None for one that is refused; else it waits, `until` the window turns."""

    reason: str
    held_by: str | None
    until: datetime | None


class BudgetService:
    def __init__(
        self,
        database: AsyncDatabase[dict[str, Any]],
        prices: PriceTable,
        holder: ReserverIdentity,
        *,
        fails_open: bool = False,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`fails_open`: what cannot be asked for, or has no known price, is allowed."""
        self.holder = holder
        self.fails_open = fails_open
        self.clock = clock
        self.windows = WindowStore(database)
        self.cache = BudgetCache(BudgetStore(database))
        self.estimates = Estimates(prices)
        self._estimate_store = EstimateStore(database)
        self.shared_estimates = SharedEstimates(self._estimate_store, self.estimates)
        self.rejections = RejectionCounter(self.windows)
        self.accounts = WindowAccounts(self.windows, holder, self._on_reply, clock)
        self._alerts = BudgetAlerts(self.windows)
        self._logged_at: dict[tuple[str, ...], float] = {}

    async def ensure_indexes(self) -> None:
        await self.windows.ensure_indexes()
        await self._estimate_store.ensure_indexes()

    async def open(self) -> None:
        """Before the first run: then this process knows what others have learnt."""
        await self.ensure_indexes()
        await self.shared_estimates.load()

    def estimate(self, planned: PlannedCall, unit: Unit, *, workflow: str) -> int | None:
        """In USD None, where no price is known. Never waits: what others know of such calls is looked up meanwhile."""
        amount = self.estimates.estimate(planned, unit, workflow=workflow)
        self.shared_estimates.look_up_unknown()
        return amount

    def observe(self, planned: PlannedCall, call: ModelCall, *, workflow: str) -> None:
        self.estimates.observe(planned, call, workflow=workflow)
        self.shared_estimates.schedule_flush()

    async def close(self) -> None:
        """Takes this process out of all windows. What it does not manage in time is found in the ledger."""
        try:
            async with asyncio.timeout(CLOSES_WITHIN_S):
                await self.accounts.close()
                await self._alerts.close()
                await self.rejections.close()
                await self.shared_estimates.close()
        except TimeoutError:
            log.warning("budgets_left_open")

    async def check_start(self, app_id: str, workflow: str, *, is_first_start: bool) -> StartDenied | None:
        """A run that has begun goes on to its next call, which is not made, unless it is to wait."""
        try:
            found = await self.cache.effective_budgets(app_id, workflow)
            asked = [each for each in found if each.is_enforced and each.budget.window != "run"]
            if not is_first_start:
                asked = [each for each in asked if each.budget.running == "hold"]
            return await self._check_windows(asked, is_first_start=is_first_start) if asked else None
        except PyMongoError as error:
            if not self.fails_open:
                raise
            self.log_unchecked(error)
            return None

    async def _check_windows(self, budgets: Sequence[EffectiveBudget], *, is_first_start: bool) -> StartDenied | None:
        now = self.clock()
        places = [each.window_at(now) for each in budgets]
        used = await self.windows.read_usage(places)
        for place in places:  # it may be spent since its limit was lowered, and no call hears of it
            self._alerts.check(place, used[place.id].spent)
        held: list[BudgetWindow] = []
        for place in places:
            budget, its = place.budget, used[place.id]
            if is_first_start and budget.new_runs == "refuse":
                if its.spent >= budget.limit:
                    self.rejections.count(place)
                    return StartDenied(describe_spent(place, its.spent), None, place.span.end)
            elif not its.has_room(budget.limit):
                held.append(place)  # what calls under way hold may be left over: it waits for that as well
        if not held:
            return None
        last = max(held, key=lambda place: (place.span.end is None, place.span.end or now))
        self.rejections.count(last)
        return StartDenied(describe_spent(last, used[last.id].spent), HELD_BY_PREFIX + last.budget.id, last.span.end)

    def log_unchecked(self, error: Exception) -> None:
        if self._is_log_due(("not asked",)):
            log.warning("budget_not_asked", extra={"error": type(error).__name__})

    def log_missing_price(self, budget: Budget, model: str) -> None:
        if self._is_log_due((budget.id, model)):
            log.warning("budget_without_price", extra={"budget": budget.id, "model": model})

    def _is_log_due(self, key: tuple[str, ...]) -> bool:
        """Once a minute for the same, however often it happens."""
        now = time.monotonic()
        if now - self._logged_at.get(key, float("-inf")) < LOG_INTERVAL_S:
            return False
        self._logged_at[key] = now
        return True

    def _on_reply(self, window: BudgetWindow, answer: WindowReply) -> None:
        if window.has_alerts:
            self._alerts.check(window, answer.spent)
