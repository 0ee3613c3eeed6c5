"""An account: what this process has spent and reserved in one window, and its talk with the window's document.

One command at a time is under way; what is asked meanwhile goes with the next one. What is settled is told with it, or
a moment later by itself. While calls are under way the entry is renewed, and when nothing has happened for a while the
process leaves the window. A call that finds no room only because others hold it waits for them.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextvars import Context
from dataclasses import dataclass
from datetime import datetime
from uuid import uuid4

from pymongo.errors import PyMongoError

from accounting.budgets.effective_budgets import BudgetWindow, EffectiveBudget
from accounting.budgets.window_store import RESERVATION_TTL_S, ProcessShare, WindowReply, WindowStore

FLUSH_AFTER_S = 0.2
ASK_AGAIN_S = 0.25
TRY_AGAIN_S = 1.0
RENEW_AFTER_S = RESERVATION_TTL_S / 4
LEAVE_AFTER_S = RESERVATION_TTL_S / 3
MAX_REQUESTS = 200

log = logging.getLogger(__name__)

MAX_TRIES = 5
MAX_OPENED_IDS = 10_000


class WindowSpentError(Exception):
    """All of the window is spent."""

    def __init__(self, spent: int) -> None:
        super().__init__(f"{spent} are spent")
        self.spent = spent


class AccountClosedError(Exception):
    """It is this process's no more, or its window is over: whoever asks, asks the account that is there now."""


@dataclass(slots=True, eq=False)
class _ReserveRequest:
    """`amount` as it is now: what is known of calls grows while one waits."""

    amount: Callable[[], int]
    result: "asyncio.Future[int]"
    was_refused: bool = False


class Account:
    def __init__(
        self,
        windows: WindowStore,
        window: BudgetWindow,
        holder: str,
        *,
        on_answer: Callable[["Account", WindowReply], None],
        on_closed: Callable[["Account"], None],
        clock: Callable[[], datetime],
    ) -> None:
        """`on_closed` hears when nothing more is done here."""
        self.window = window
        self.holder = holder
        self.limit: int | None = None
        self.is_lost = False
        self._windows = windows
        self._on_answer = on_answer
        self._on_closed = on_closed
        self._clock = clock
        self._since = clock()  # no call that is settled here began before
        self._spent = self._reserved = self._command_number = 0
        self._is_new = True
        self._requests: list[_ReserveRequest] = []
        self._is_leaving = False
        self._loop = asyncio.get_running_loop()
        self._sent_at = self._touched_at = self._loop.time()
        self._flush_at: float | None = None  # what the store does not know yet
        self._wakeup = asyncio.Event()
        # In no caller's context: a deadline of one would be all others' as well.
        self._task = self._loop.create_task(self._serve(), name="budget account", context=Context())

    @property
    def is_closed(self) -> bool:
        return self._task.done()

    async def reserve(self, amount: Callable[[], int]) -> int:
        """Returns what was reserved, when there is room. Raises SpentError when there will be none,
        ClosedAccountError, PyMongoError."""
        if self._is_leaving or self.is_closed:
            raise AccountClosedError
        ask = _ReserveRequest(amount, self._loop.create_future())
        self._requests.append(ask)
        self._touch()
        try:
            return await ask.result
        except asyncio.CancelledError:
            if ask.result.done() and not ask.result.cancelled() and ask.result.exception() is None:
                self.release(ask.result.result())
            raise
        finally:
            if ask in self._requests:
                self._requests.remove(ask)

    def reserve_unchecked(self, amount: int) -> None:
        """Without asking."""
        self._reserved += amount
        self._schedule_flush()

    def release(self, amount: int) -> None:
        self._reserved -= amount
        self._schedule_flush()

    def settle(self, reserved: int, spent: int) -> None:
        """Of a call whose row this holder has signed: should it be lost, that is summed up from such rows."""
        self._spent += spent
        self.release(reserved)

    async def leave(self) -> None:
        """Tells what is to be told and takes the entry out. One in which calls are still under way is left where it is:
        what they take is summed up from their rows."""
        self._is_leaving = True
        self._refuse_all(self._requests, AccountClosedError())
        self._touch()
        await asyncio.wait([self._task])

    def _schedule_flush(self) -> None:
        if self._flush_at is None:
            self._flush_at = self._loop.time() + FLUSH_AFTER_S
        self._touch()

    def _touch(self) -> None:
        self._touched_at = self._loop.time()
        self._wakeup.set()

    async def _serve(self) -> None:
        try:
            while not self.is_lost:
                wait_s = self._idle_s()
                if wait_s > 0:
                    await self._wait(wait_s)
                elif self._requests or self._flush_at is not None or (self._reserved and not self._is_leaving):
                    await self._send(self._requests[:MAX_REQUESTS])
                elif self._reserved or await self._leave_window():
                    return
        finally:
            for ask in self._requests:
                _refuse(ask, AccountClosedError())
            self._on_closed(self)

    def _idle_s(self) -> float:
        """Until something is to be done."""
        now = self._loop.time()
        if self._is_leaving or any(not ask.was_refused for ask in self._requests):
            return 0
        if self._requests:  # what was released here may be room enough
            return self._sent_at + (FLUSH_AFTER_S / 10 if self._flush_at is not None else ASK_AGAIN_S) - now
        if self._flush_at is not None:
            return self._flush_at - now
        if self._reserved:
            return self._sent_at + RENEW_AFTER_S - now
        return max(self._touched_at, self._sent_at) + LEAVE_AFTER_S - now

    async def _wait(self, wait_s: float) -> None:
        self._wakeup.clear()
        try:
            async with asyncio.timeout(wait_s):
                await self._wakeup.wait()
        except TimeoutError:
            pass

    async def _send(self, requests: Sequence[_ReserveRequest]) -> None:
        if requests and self.window.is_over(self._clock()):
            self._refuse_all(requests, AccountClosedError())
            return
        self._command_number += 1
        had_to_tell, self._flush_at = self._flush_at is not None, None
        amounts = [ask.amount() for ask in requests]
        try:
            answer = await self._windows.send_share(self.window, self._share(), amounts, limit=self.limit)
        except PyMongoError as error:
            self._refuse_all(self._requests, error)  # who has come meanwhile would only wait as long again
            self._sent_at = self._loop.time()  # also where it was to be renewed: it is tried again
            self._flush_at = self._sent_at + TRY_AGAIN_S if had_to_tell or self._reserved else self._flush_at
            if self._is_leaving:
                self.is_lost = True  # what it did not hear of, it finds in the ledger
            return
        self._sent_at = self._loop.time()
        if answer.is_ours:
            self._is_new = False
            self._apply_grants(requests, amounts, answer)
            self._on_answer(self, answer)
        else:
            self.is_lost = True

    def _apply_grants(self, requests: Sequence[_ReserveRequest], amounts: Sequence[int], answer: WindowReply) -> None:
        for ask, amount in list(zip(requests, amounts, strict=True))[: answer.granted]:
            self._reserved += amount
            if ask.result.done():
                self.release(amount)  # its caller was cancelled meanwhile
            else:
                ask.result.set_result(amount)
        self._requests = [ask for ask in self._requests if not ask.result.done()]
        if answer.granted == len(requests):
            return
        # Nobody is overtaken: those behind have no room either.
        if self.limit is not None and answer.spent >= self.limit:
            self._refuse_all(self._requests, WindowSpentError(answer.spent))
        for ask in self._requests:
            ask.was_refused = True

    def _refuse_all(self, requests: Sequence[_ReserveRequest], error: Exception) -> None:
        for ask in requests:
            _refuse(ask, error)
        self._requests = [ask for ask in self._requests if not ask.result.done()]

    async def _leave_window(self) -> bool:
        """Whether all is over here. What comes meanwhile begins anew."""
        part = self._share()
        if not self._is_new:
            try:
                await self._windows.leave(self.window, part)
            except PyMongoError as error:
                self._refuse_all(self._requests, error)
                self._sent_at = self._loop.time()
                # It may have left all the same: then nothing that comes later would be found under this name.
                self.is_lost = not (self._is_leaving or self._reserved or self._spent != part.spent)
                return self._is_leaving
        self._spent -= part.spent
        self._is_new, self._since = True, self._clock()
        return self._is_leaving or not (self._requests or self._spent or self._reserved)

    def _share(self) -> ProcessShare:
        return ProcessShare(self.holder, self._command_number, self._spent, self._reserved, self._since, self._is_new)


def _refuse(request: _ReserveRequest, error: Exception) -> None:
    if not request.result.done():
        request.result.set_exception(error)


class ReserverIdentity:
    """A name is never used again: one that was away for longer than its reservations hold comes back as another."""

    def __init__(self) -> None:
        self._id = _new_id()

    @property
    def id(self) -> str:
        return self._id

    def renew(self) -> None:
        self._id = _new_id()


def _new_id() -> str:
    return f"h{uuid4().hex[:20]}"


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
