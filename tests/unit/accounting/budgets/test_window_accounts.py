"""Window accounts: one command at a time, and no reservation outlives its caller."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import cast

import pytest
from pymongo.errors import AutoReconnect

from accounting.budgets.budget import parse_budget
from accounting.budgets.budget_store import StoredBudget
from accounting.budgets.effective_budgets import BudgetWindow, effective_budgets
from accounting.budgets.window_accounts import Account, AccountClosedError, BudgetOptions, WindowSpentError
from accounting.budgets.window_store import ProcessShare, WindowReply, WindowStore

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
HASTY = BudgetOptions(flush_delay_s=0.005, room_retry_s=0.005)


class FakeWindows:
    """A window store that replies when `may_answer` is set.

    It grants all amounts unless `granted` is set.
    """

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.asked = asyncio.Event()
        self.parts: list[ProcessShare] = []
        self.asks: list[Sequence[int]] = []
        self.left: list[ProcessShare] = []
        self.granted: int | None = None
        self.spent = 0
        self.error: Exception | None = None

    async def send_share(
        self, _: BudgetWindow, share: ProcessShare, amounts: Sequence[int] = (), *, limit: int | None = None
    ) -> WindowReply:
        del limit
        self.parts.append(share)
        self.asks.append(amounts)
        self.asked.set()
        await self.may_answer.wait()
        if self.error is not None:
            raise self.error
        granted = len(amounts) if self.granted is None else self.granted
        return WindowReply(True, self.spent, sum(amounts[:granted]) + share.reserved, granted)

    async def leave(self, _: BudgetWindow, share: ProcessShare) -> None:
        self.left.append(share)

    async def wait_for_commands(self, commands: int) -> None:
        while len(self.parts) < commands:
            self.asked.clear()
            await self.asked.wait()


class AccountBench:
    def __init__(self, options: BudgetOptions = HASTY) -> None:
        self.windows = FakeWindows()
        self.closed = asyncio.Event()
        self.on_answer: Callable[[], object] = lambda: None
        self.now = NOON
        stored = StoredBudget(
            parse_budget(app_id="acme", window="day", unit="tokens", limit=100), NOON, NOON, NOON, "ada"
        )
        self.account = Account(
            cast(WindowStore, self.windows),
            effective_budgets([stored], "acme", "Digest")[0].window_at(NOON),
            "h1",
            on_answer=self._on_answer,
            on_closed=lambda _: self.closed.set(),
            clock=lambda: self.now,
            options=options,
        )
        self.account.limit = 100

    def _on_answer(self, _account: Account, _answer: WindowReply) -> None:
        self.on_answer()

    def reserve(self, amount: int) -> "asyncio.Task[int]":
        return asyncio.create_task(self.account.reserve(lambda: amount))

    async def next_share(self) -> ProcessShare:
        """Returns the next share that reaches the store."""
        await self.reserve(1)
        return self.windows.parts[-1]


async def test_what_is_asked_while_a_command_is_under_way_goes_with_the_next() -> None:
    bench = AccountBench()
    bench.windows.may_answer.clear()
    first = bench.reserve(1)
    await bench.windows.asked.wait()
    others = [bench.reserve(amount) for amount in (2, 3, 4)]
    await asyncio.sleep(0)
    bench.windows.may_answer.set()

    assert await asyncio.gather(first, *others) == [1, 2, 3, 4]
    assert bench.windows.asks == [[1], [2, 3, 4]]
    assert [part.command_number for part in bench.windows.parts] == [1, 2]
    assert [part.reserved for part in bench.windows.parts] == [0, 1]


async def test_a_caller_cancelled_while_its_command_is_under_way_holds_nothing() -> None:
    bench = AccountBench()
    bench.windows.may_answer.clear()
    asking = bench.reserve(50)
    await bench.windows.asked.wait()
    asking.cancel()
    await asyncio.wait([asking])
    bench.windows.may_answer.set()

    assert (await bench.next_share()).reserved == 0


async def test_a_caller_cancelled_in_the_moment_of_its_grant_holds_nothing() -> None:
    bench = AccountBench()
    asking = bench.reserve(50)
    bench.on_answer = asking.cancel

    with pytest.raises(asyncio.CancelledError):
        await asking
    bench.on_answer = lambda: None
    assert (await bench.next_share()).reserved == 0


async def test_no_caller_waits_in_a_window_that_is_over() -> None:
    bench = AccountBench()
    bench.windows.granted = 0
    waiting = bench.reserve(50)
    await bench.windows.asked.wait()
    bench.now = NOON + timedelta(days=1)

    with pytest.raises(AccountClosedError):
        await waiting


async def test_when_all_is_spent_every_waiter_is_refused() -> None:
    bench = AccountBench()
    bench.windows.granted, bench.windows.spent = 0, 100

    results = await asyncio.gather(*(bench.reserve(1) for _ in range(3)), return_exceptions=True)

    assert [type(result) for result in results] == [WindowSpentError] * 3


async def test_calls_under_way_are_renewed_and_an_idle_account_leaves() -> None:
    bench = AccountBench(replace(HASTY, renew_interval_s=0.005, idle_timeout_s=0.02))
    amount = await bench.reserve(7)
    await bench.windows.wait_for_commands(4)
    assert {part.reserved for part in bench.windows.parts[1:]} == {7}
    assert not bench.closed.is_set()

    bench.account.settle(amount, 5)
    await bench.closed.wait()
    assert [(part.spent, part.reserved) for part in bench.windows.left] == [(5, 0)]


async def test_an_account_whose_store_fails_reports_it_and_writes_later() -> None:
    bench = AccountBench(replace(HASTY, store_retry_s=0.005))
    amount = await bench.reserve(7)
    bench.windows.error = AutoReconnect("away")
    bench.account.settle(amount, 5)
    with pytest.raises(AutoReconnect):
        await bench.reserve(1)

    bench.windows.error = None
    await bench.windows.wait_for_commands(len(bench.windows.parts) + 1)
    assert (bench.windows.parts[-1].spent, bench.windows.parts[-1].reserved) == (5, 0)


async def test_a_request_while_the_store_hangs_fails_with_the_others() -> None:
    bench = AccountBench()
    bench.windows.may_answer.clear()
    bench.windows.error = AutoReconnect("away")
    first = bench.reserve(1)
    await bench.windows.wait_for_commands(1)
    second = bench.reserve(1)
    await asyncio.sleep(0)
    bench.windows.may_answer.set()

    failed = await asyncio.gather(first, second, return_exceptions=True)

    assert [type(error) for error in failed] == [AutoReconnect] * 2
    assert len(bench.windows.parts) == 1
