"""Accounts: what this process has spent and reserved, one account for each window that it is in."""

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime

from accounting.budgets.account import Account, AccountClosedError
from accounting.budgets.holder import ReserverIdentity
from accounting.budgets.places import EffectiveBudget, BudgetWindow
from accounting.budgets.window_commands import WindowReply
from accounting.budgets.window_store import WindowStore

log = logging.getLogger(__name__)

MAX_TRIES = 5
MAX_OPENED_IDS = 10_000


class WindowAccounts:
    def __init__(
        self,
        windows: WindowStore,
        holder: ReserverIdentity,
        on_answer: Callable[[BudgetWindow, WindowReply], None],
        clock: Callable[[], datetime],
    ) -> None:
        self._windows = windows
        self._holder = holder
        self._on_answer = on_answer
        self._clock = clock
        self._accounts: dict[tuple[str, str], Account] = {}
        self._opened_ids: set[str] = set()

    async def reserve(self, budget: EffectiveBudget, amount: Callable[[], int]) -> tuple[Account, int]:
        """Waits for room: where it was got, and how much. Raises SpentError when there will be none, PyMongoError when
        that cannot be asked."""
        for _ in range(MAX_TRIES):
            place = budget.window_at(self._clock())
            if place.has_earlier_spending:
                await self._ensure_open(place)
            account = self.get_account(place)
            account.limit = budget.limit
            try:
                return account, await account.reserve(amount)
            except AccountClosedError:
                continue
        raise AccountClosedError

    def get_account(self, window: BudgetWindow) -> Account:
        """Of this holder, made where there is none."""
        key = window.id, self._holder.id
        account = self._accounts.get(key)
        if account is None:
            account = self._accounts[key] = Account(
                self._windows,
                window,
                self._holder.id,
                on_answer=lambda account, answer: self._on_answer(account.window, answer),
                on_closed=self._remove_closed,
                clock=self._clock,
            )
        account.window = window  # its budget may have another limit now
        return account

    async def close(self) -> None:
        await asyncio.gather(*(account.leave() for account in [*self._accounts.values()]))

    async def _ensure_open(self, window: BudgetWindow) -> None:
        if window.id in self._opened_ids:
            return
        await self._windows.open(window)
        if len(self._opened_ids) >= MAX_OPENED_IDS:
            self._opened_ids.clear()
        self._opened_ids.add(window.id)

    def _remove_closed(self, account: Account) -> None:
        self._accounts.pop((account.window.id, account.holder), None)
        if account.is_lost and account.holder == self._holder.id:
            # Others may have summed up by now what this name has spent.
            self._holder.renew()
            log.warning("budget_holder_renewed", extra={"budget": account.window.budget.id, "was": account.holder})
