"""Window accounts: what this process has spent and reserved in each window.

An account sends one command at a time to the document of its window; new requests go with the next one. Settled amounts
go along, or a moment later by themselves. The entry is renewed while calls are running, and the process leaves the
window after a while without any. A call that finds no room only because others hold it waits for them.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextvars import Context
from dataclasses import dataclass
from datetime import datetime
from uuid import uuid4

from pymongo.errors import PyMongoError

from accounting.budgets.effective_budgets import REFRESH_INTERVAL_S, REFRESH_TIMEOUT_S, BudgetWindow, EffectiveBudget
from accounting.budgets.estimates import FLUSH_INTERVAL_S
from accounting.budgets.window_store import RESERVATION_TTL_S, STORE_TIMEOUT_S, ProcessShare, WindowReply, WindowStore

log = logging.getLogger(__name__)

MAX_TRIES = 5
MAX_OPENED_IDS = 10_000


@dataclass(frozen=True, slots=True)
class BudgetOptions:
    """How often a process reads budgets and writes windows, and how long it waits."""

    refresh_interval_s: float = REFRESH_INTERVAL_S
    refresh_timeout_s: float = REFRESH_TIMEOUT_S
    store_timeout_s: float = STORE_TIMEOUT_S
    room_timeout_s: float = 9.0  # a little less than a chat waits for its budgets
    room_retry_s: float = 0.25
    store_retry_s: float = 1.0
    flush_delay_s: float = 0.2  # settled amounts wait so long for a request to go along with
    renew_interval_s: float = RESERVATION_TTL_S / 4
    idle_timeout_s: float = RESERVATION_TTL_S / 3  # after it a process leaves a window
    max_requests: int = 200  # in one command
    estimates_interval_s: float = FLUSH_INTERVAL_S
    close_timeout_s: float = 1.5


class WindowSpentError(Exception):
    """All of the window is spent."""

    def __init__(self, spent: int) -> None:
        super().__init__(f"{spent} are spent")
        self.spent = spent


class AccountClosedError(Exception):
    """The account no longer belongs to this process, or its window is over.

    Callers take the present account.
    """


@dataclass(slots=True, eq=False)
class _ReserveRequest:
    """A call that waits for room.

    `amount` is called anew for each try: estimates grow meanwhile.
    """

    amount: Callable[[], int]
    result: "asyncio.Future[int]"
    was_refused: bool = False


class Account:
    """The account of this process in one window."""

    def __init__(
        self,
        windows: WindowStore,
        window: BudgetWindow,
        holder: str,
        *,
        on_answer: Callable[["Account", WindowReply], None],
        on_closed: Callable[["Account"], None],
        clock: Callable[[], datetime],
        options: BudgetOptions,
    ) -> None:
        """`on_closed` is called when the account has ended."""
        self.window = window
        self.holder = holder
        self.limit: int | None = None
        self.is_lost = False
        self._windows = windows
        self._on_answer = on_answer
        self._on_closed = on_closed
        self._clock = clock
        self._options = options
        self._since = clock()  # no call that is settled here began earlier
        self._spent = self._reserved = self._command_number = 0
        self._is_new = True
        self._requests: list[_ReserveRequest] = []
        self._is_leaving = False
        self._loop = asyncio.get_running_loop()
        self._sent_at = self._touched_at = self._loop.time()
        self._flush_at: float | None = None  # set while the store lacks something
        self._wakeup = asyncio.Event()
        # An empty context: a deadline of one caller must not apply to all.
        self._task = self._loop.create_task(self._serve(), name="budget account", context=Context())

    @property
    def is_closed(self) -> bool:
        return self._task.done()

    async def reserve(self, amount: Callable[[], int]) -> int:
        """Waits for room and returns the reserved amount.

        Raises WindowSpentError if there will be none, AccountClosedError or PyMongoError.
        """
        if self._is_leaving or self.is_closed:
            raise AccountClosedError
        request = _ReserveRequest(amount, self._loop.create_future())
        self._requests.append(request)
        self._touch()
        try:
            return await request.result
        except asyncio.CancelledError:
            if request.result.done() and not request.result.cancelled() and request.result.exception() is None:
                self.release(request.result.result())
            raise
        finally:
            if request in self._requests:
                self._requests.remove(request)

    def reserve_unchecked(self, amount: int) -> None:
        """Reserves without asking the store."""
        self._reserved += amount
        self._schedule_flush()

    def release(self, amount: int) -> None:
        self._reserved -= amount
        self._schedule_flush()

    def settle(self, reserved: int, spent: int) -> None:
        """Settles a call.

        This holder has signed its row, from which it is summed up if the process is lost.
        """
        self._spent += spent
        self.release(reserved)

    async def leave(self) -> None:
        """Sends what is unsent and removes the entry.

        While calls are running it stays: they are summed up from their rows.
        """
        self._is_leaving = True
        self._refuse_all(self._requests, AccountClosedError())
        self._touch()
        await asyncio.wait([self._task])

    def _schedule_flush(self) -> None:
        if self._flush_at is None:
            self._flush_at = self._loop.time() + self._options.flush_delay_s
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
                    await self._send(self._requests[: self._options.max_requests])
                elif self._reserved or await self._leave_window():
                    return
        finally:
            for request in self._requests:
                _refuse(request, AccountClosedError())
            self._on_closed(self)

    def _idle_s(self) -> float:
        """Returns the seconds until something is due."""
        now = self._loop.time()
        if self._is_leaving or any(not request.was_refused for request in self._requests):
            return 0
        if self._requests:  # amounts released here may be room enough
            retry_s = self._options.room_retry_s if self._flush_at is None else self._options.flush_delay_s / 10
            return self._sent_at + retry_s - now
        if self._flush_at is not None:
            return self._flush_at - now
        if self._reserved:
            return self._sent_at + self._options.renew_interval_s - now
        return max(self._touched_at, self._sent_at) + self._options.idle_timeout_s - now

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
        had_unsent, self._flush_at = self._flush_at is not None, None
        amounts = [request.amount() for request in requests]
        try:
            answer = await self._windows.send_share(self.window, self._share(), amounts, limit=self.limit)
        except PyMongoError as error:
            self._refuse_all(self._requests, error)  # later requests would only wait as long again
            self._sent_at = self._loop.time()  # a renewal too is tried again
            if had_unsent or self._reserved:
                self._flush_at = self._sent_at + self._options.store_retry_s
            if self._is_leaving:
                self.is_lost = True  # the reconciler finds the rest in the ledger
            return
        self._sent_at = self._loop.time()
        if answer.is_ours:
            self._is_new = False
            self._apply_grants(requests, amounts, answer)
            self._on_answer(self, answer)
        else:
            self.is_lost = True

    def _apply_grants(self, requests: Sequence[_ReserveRequest], amounts: Sequence[int], answer: WindowReply) -> None:
        for request, amount in list(zip(requests, amounts, strict=True))[: answer.granted]:
            self._reserved += amount
            if request.result.done():
                self.release(amount)  # the caller was cancelled meanwhile
            else:
                request.result.set_result(amount)
        self._requests = [request for request in self._requests if not request.result.done()]
        if answer.granted == len(requests):
            return
        # Requests keep their order: those behind have no room either.
        if self.limit is not None and answer.spent >= self.limit:
            self._refuse_all(self._requests, WindowSpentError(answer.spent))
        for request in self._requests:
            request.was_refused = True

    def _refuse_all(self, requests: Sequence[_ReserveRequest], error: Exception) -> None:
        for request in requests:
            _refuse(request, error)
        self._requests = [request for request in self._requests if not request.result.done()]

    async def _leave_window(self) -> bool:
        """Leaves the window.

        Returns whether the account has ended; new requests begin a new entry.
        """
        share = self._share()
        if not self._is_new:
            try:
                await self._windows.leave(self.window, share)
            except PyMongoError as error:
                self._refuse_all(self._requests, error)
                self._sent_at = self._loop.time()
                # The command may have arrived all the same: later amounts would not be found under this name then.
                self.is_lost = not (self._is_leaving or self._reserved or self._spent != share.spent)
                return self._is_leaving
        self._spent -= share.spent
        self._is_new, self._since = True, self._clock()
        return self._is_leaving or not (self._requests or self._spent or self._reserved)

    def _share(self) -> ProcessShare:
        return ProcessShare(self.holder, self._command_number, self._spent, self._reserved, self._since, self._is_new)


def _refuse(request: _ReserveRequest, error: Exception) -> None:
    if not request.result.done():
        request.result.set_exception(error)


class ReserverIdentity:
    """The name of this process in windows.

    After an absence longer than its reservations hold it gets a new one, never an old one.
    """

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
    """The accounts of this process, one for each window in use."""

    def __init__(
        self,
        windows: WindowStore,
        holder: ReserverIdentity,
        on_answer: Callable[[BudgetWindow, WindowReply], None],
        clock: Callable[[], datetime],
        options: BudgetOptions,
    ) -> None:
        self._windows = windows
        self._holder = holder
        self._options = options
        self._on_answer = on_answer
        self._clock = clock
        self._accounts: dict[tuple[str, str], Account] = {}
        self._opened_ids: set[str] = set()

    async def reserve(self, budget: EffectiveBudget, amount: Callable[[], int]) -> tuple[Account, int]:
        """Waits for room; returns the account and the amount.

        Raises WindowSpentError if there will be none, or PyMongoError.
        """
        for _ in range(MAX_TRIES):
            window = budget.window_at(self._clock())
            if window.has_earlier_spending:
                await self._ensure_open(window)
            account = self.get_account(window)
            account.limit = budget.limit
            try:
                return account, await account.reserve(amount)
            except AccountClosedError:
                continue
        raise AccountClosedError

    def get_account(self, window: BudgetWindow) -> Account:
        """Returns the account of this holder, and creates it if there is none."""
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
                options=self._options,
            )
        account.window = window  # the limit of its budget may have changed
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
            # The reconciler may have summed up by now what this name has spent.
            self._holder.renew()
            log.warning("budget_holder_renewed", extra={"budget": account.window.budget.id, "was": account.holder})
