"""Accounts: what this process has spent and reserved, one account for each window that it is in."""

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime

from accounting.budgets.account import Account, ClosedAccountError
from accounting.budgets.holder import Holder
from accounting.budgets.places import Applying, Place
from accounting.budgets.window_commands import Answer
from accounting.budgets.window_store import WindowStore

log = logging.getLogger(__name__)

TRIES = 5
MOST_REMEMBERED = 10_000


class Accounts:
    def __init__(
        self,
        windows: WindowStore,
        holder: Holder,
        on_answer: Callable[[Place, Answer], None],
        clock: Callable[[], datetime],
    ) -> None:
        self._windows = windows
        self._holder = holder
        self._on_answer = on_answer
        self._clock = clock
        self._open: dict[tuple[str, str], Account] = {}
        self._opened_ids: set[str] = set()

    async def reserve(self, each: Applying, amount: Callable[[], int]) -> tuple[Account, int]:
        """Waits for room: where it was got, and how much. Raises SpentError when there will be none, PyMongoError when
        that cannot be asked."""
        for _ in range(TRIES):
            place = each.place(self._clock())
            if place.spent_before:
                await self._opened(place)
            account = self.of(place)
            account.limit = each.limit
            try:
                return account, await account.reserve(amount)
            except ClosedAccountError:
                continue
        raise ClosedAccountError

    def of(self, place: Place) -> Account:
        """Of this holder, made where there is none."""
        key = place.id, self._holder.id
        account = self._open.get(key)
        if account is None:
            account = self._open[key] = Account(
                self._windows,
                place,
                self._holder.id,
                on_answer=lambda account, answer: self._on_answer(account.place, answer),
                on_closed=self._closed,
                clock=self._clock,
            )
        account.place = place  # its budget may have another limit now
        return account

    async def close(self) -> None:
        await asyncio.gather(*(account.leave() for account in [*self._open.values()]))

    async def _opened(self, place: Place) -> None:
        if place.id in self._opened_ids:
            return
        await self._windows.open(place)
        if len(self._opened_ids) >= MOST_REMEMBERED:
            self._opened_ids.clear()
        self._opened_ids.add(place.id)

    def _closed(self, account: Account) -> None:
        self._open.pop((account.place.id, account.holder), None)
        if account.is_lost and account.holder == self._holder.id:
            # Others may have summed up by now what this name has spent.
            self._holder.renew()
            log.warning("budget_holder_renewed", extra={"budget": account.place.budget.id, "was": account.holder})
