"""The budget service of a process: what all its runs share.

Runs reserve before each call (`RunBudgets.reserve`), and admission checks whether a run may start (`check_start`). If
no budget matches, neither asks the store.
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

from accounting.budgets.budget import Budget, Unit
from accounting.budgets.budget_alerts import BudgetAlerts, describe_spent
from accounting.budgets.budget_store import BudgetStore
from accounting.budgets.effective_budgets import BudgetCache, BudgetWindow, EffectiveBudget
from accounting.budgets.estimates import Estimates, EstimateStore, SharedEstimates
from accounting.budgets.reservation_types import PlannedCall
from accounting.budgets.window_accounts import BudgetOptions, ReserverIdentity, WindowAccounts
from accounting.budgets.window_store import WindowReply, WindowStore
from accounting.prices import PriceTable
from accounting.usage import ModelCall

log = logging.getLogger(__name__)

LOG_INTERVAL_S = 60.0
FLUSH_DELAY_S = 0.3
HELD_BY_PREFIX = "budget:"
DEFAULT_OPTIONS = BudgetOptions()


class RejectionCounter:
    """Counts rejections in memory.

    They are added to the store a moment later, many in one command.
    """

    def __init__(self, windows: WindowStore) -> None:
        self._windows = windows
        self._counts: dict[str, tuple[BudgetWindow, int]] = {}
        self._flush_task: asyncio.Task[None] | None = None

    def count(self, window: BudgetWindow) -> None:
        _, before = self._counts.get(window.id, (window, 0))
        self._counts[window.id] = window, before + 1
        if self._flush_task is None:
            # An empty context: no deadline of a run applies.
            self._flush_task = asyncio.create_task(self._flush_later(), context=Context())

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
    """Why a run may not start.

    `held_by` is None if the run is refused; otherwise it waits until `until`.
    """

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
        options: BudgetOptions = DEFAULT_OPTIONS,
    ) -> None:
        """`fails_open` allows calls when the store is unavailable or no price is known."""
        self.holder = holder
        self.fails_open = fails_open
        self.clock = clock
        self.options = options
        self.windows = WindowStore(database, timeout_s=options.store_timeout_s)
        self.cache = BudgetCache(
            BudgetStore(database),
            refresh_interval_s=options.refresh_interval_s,
            refresh_timeout_s=options.refresh_timeout_s,
        )
        self.estimates = Estimates(prices)
        self._estimate_store = EstimateStore(database, timeout_s=options.store_timeout_s)
        self.shared_estimates = SharedEstimates(
            self._estimate_store, self.estimates, flush_interval_s=options.estimates_interval_s
        )
        self.rejections = RejectionCounter(self.windows)
        self.accounts = WindowAccounts(self.windows, holder, self._on_reply, clock, options)
        self._alerts = BudgetAlerts(self.windows)
        self._logged_at: dict[tuple[str, ...], float] = {}

    async def ensure_indexes(self) -> None:
        await self.windows.ensure_indexes()
        await self._estimate_store.ensure_indexes()

    async def open(self) -> None:
        """Prepares the store and loads the estimates of other processes."""
        await self.ensure_indexes()
        await self.shared_estimates.load()

    def estimate(self, planned: PlannedCall, unit: Unit, *, workflow: str) -> int | None:
        """Estimates a call; None in USD if no price is known.

        It never waits: observations of other processes are looked up in the background.
        """
        amount = self.estimates.estimate(planned, unit, workflow=workflow)
        self.shared_estimates.look_up_unknown()
        return amount

    def observe(self, planned: PlannedCall, call: ModelCall, *, workflow: str) -> None:
        self.estimates.observe(planned, call, workflow=workflow)
        self.shared_estimates.schedule_flush()

    async def close(self) -> None:
        """Leaves all windows. What does not finish in time is settled from the ledger."""
        try:
            async with asyncio.timeout(self.options.close_timeout_s):
                await self.accounts.close()
                await self._alerts.close()
                await self.rejections.close()
                await self.shared_estimates.close()
        except TimeoutError:
            log.warning("budgets_left_open")

    async def check_start(self, app_id: str, workflow: str, *, is_first_start: bool) -> StartDenied | None:
        """Checks whether the budgets of a run allow its start.

        For a run that has begun only budgets count that hold running runs: the others refuse its next call.
        """
        try:
            effective = await self.cache.effective_budgets(app_id, workflow)
            relevant = [budget for budget in effective if budget.is_enforced and budget.budget.window != "run"]
            if not is_first_start:
                relevant = [budget for budget in relevant if budget.budget.running == "hold"]
            return await self._check_windows(relevant, is_first_start=is_first_start) if relevant else None
        except PyMongoError as error:
            if not self.fails_open:
                raise
            self.log_unchecked(error)
            return None

    async def _check_windows(self, budgets: Sequence[EffectiveBudget], *, is_first_start: bool) -> StartDenied | None:
        now = self.clock()
        windows = [budget.window_at(now) for budget in budgets]
        usages = await self.windows.read_usage(windows)
        for window in windows:  # a lowered limit may make it spent, without any call that checks the alerts
            self._alerts.check(window, usages[window.id].spent)
        held: list[BudgetWindow] = []
        for window in windows:
            budget, usage = window.budget, usages[window.id]
            if is_first_start and budget.new_runs == "refuse":
                if usage.spent >= budget.limit:
                    self.rejections.count(window)
                    return StartDenied(describe_spent(window, usage.spent), None, window.span.end)
            elif not usage.has_room(budget.limit):
                held.append(window)  # reservations of running calls may be released: the run waits for that too
        if not held:
            return None
        last = max(held, key=lambda window: (window.span.end is None, window.span.end or now))
        self.rejections.count(last)
        return StartDenied(describe_spent(last, usages[last.id].spent), HELD_BY_PREFIX + last.budget.id, last.span.end)

    def log_unchecked(self, error: Exception) -> None:
        if self._is_log_due(("not asked",)):
            log.warning("budget_not_asked", extra={"error": type(error).__name__})

    def log_missing_price(self, budget: Budget, model: str) -> None:
        if self._is_log_due((budget.id, model)):
            log.warning("budget_without_price", extra={"budget": budget.id, "model": model})

    def _is_log_due(self, key: tuple[str, ...]) -> bool:
        """Limits the same log line to one per minute."""
        now = time.monotonic()
        if now - self._logged_at.get(key, float("-inf")) < LOG_INTERVAL_S:
            return False
        self._logged_at[key] = now
        return True

    def _on_reply(self, window: BudgetWindow, answer: WindowReply) -> None:
        if window.has_alerts:
            self._alerts.check(window, answer.spent)
