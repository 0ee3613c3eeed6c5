"""The budgets of a run, as its chat asks them: room in each that matches is reserved before a call and settled after.

In one order for everybody, so that of calls that wait for each other's room one always gets on. What was got before one
of them refuses is given back.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from pymongo.errors import PyMongoError

from accounting.budgets.account import Account, ClosedAccountError, SpentError
from accounting.budgets.asking import (
    BudgetBusyError,
    BudgetExhaustedError,
    BudgetHoldError,
    PlannedCall,
    Settle,
    nothing_to_settle,
)
from accounting.budgets.budget import Unit, amount_in_words
from accounting.budgets.keeper import HELD_BY, Keeper
from accounting.budgets.places import Applying, Place
from accounting.budgets.telling import spent_in_words
from accounting.usage import ModelCall

ROOM_WITHIN_S = 9.0  # a little less than a chat waits for its budgets


@dataclass(slots=True)
class _Taken:
    """`account` is None where room could not be asked for: what the call takes is told all the same."""

    place: Place
    account: Account | None
    amount: int


@dataclass(slots=True)
class Reservation:
    planned: PlannedCall
    taken: list[_Taken] = field(default_factory=list)
    signed_by: str | None = None  # the holder that the call's row names

    def give_back(self) -> None:
        for each in self.taken:
            if each.account is not None:
                each.account.release(each.amount)


class RunBudgets:
    def __init__(self, keeper: Keeper, *, app_id: str, workflow: str, used: Callable[[Unit], int]) -> None:
        """`used`: what the run itself has used up so far."""
        self._keeper = keeper
        self._app_id = app_id
        self._workflow = workflow
        self._used = used
        self._open: dict[int, Reservation] = {}

    async def reserve(self, planned: PlannedCall) -> Settle:
        try:
            all_applying = await self._keeper.definitions.applying(self._app_id, self._workflow)
        except PyMongoError as error:
            if not self._keeper.fails_open:
                raise
            self._keeper.say_now_and_then("budget_not_asked", error=type(error).__name__)
            return nothing_to_settle
        if not all_applying:
            return nothing_to_settle
        reservation = Reservation(planned)
        try:
            async with asyncio.timeout(ROOM_WITHIN_S):
                for each in all_applying:
                    await self._take(each, reservation)
        except BaseException as error:
            reservation.give_back()
            if isinstance(error, TimeoutError):
                raise BudgetBusyError("what is left of its budget is reserved by other calls") from None
            raise
        self._open[planned.number] = reservation
        return self._settle

    def signing(self, call: ModelCall) -> None:
        """Just before its row is signed: what it took is this holder's, whoever reserved it."""
        if (reservation := self._open.get(call.number)) is not None:
            reservation.signed_by = self._keeper.holder.id

    async def _take(self, each: Applying, reservation: Reservation) -> None:
        place = each.place(self._keeper.clock())
        if each.budget.window == "run":
            self._check_run(each, place)
            return
        planned, unit = reservation.planned, each.budget.unit
        if self._keeper.estimates.of(planned, unit) is None:
            self._without_price(each, planned)
            return
        try:
            account, amount = await self._keeper.accounts.reserve(
                each, lambda: self._keeper.estimates.of(planned, unit) or 1
            )
        except SpentError as error:
            raise self._refusal(each, place, spent=error.spent) from None
        except (PyMongoError, ClosedAccountError) as error:
            if each.enforced and not self._keeper.fails_open:
                raise
            self._keeper.say_now_and_then("budget_not_asked", error=type(error).__name__)
            reservation.taken.append(_Taken(place, None, 0))
        else:
            reservation.taken.append(_Taken(account.place, account, amount))

    def _refusal(self, each: Applying, place: Place, *, spent: int) -> Exception:
        self._keeper.rejections.count(place)
        words = spent_in_words(place, spent)
        if each.budget.running == "hold":
            return BudgetHoldError(words, held_by=HELD_BY + each.budget.id, until=place.span.end)
        return BudgetExhaustedError(words)

    def _check_run(self, each: Applying, place: Place) -> None:
        budget = each.budget
        used = self._used(budget.unit)
        if used < budget.limit:
            return
        if each.enforced:
            self._keeper.rejections.count(place)
            amounts = f"{amount_in_words(budget.unit, used)} of {amount_in_words(budget.unit, budget.limit)}"
            raise BudgetExhaustedError(f"the budget {budget.id} is spent in this run: {amounts}")

    def _without_price(self, each: Applying, planned: PlannedCall) -> None:
        model = f"{planned.provider}/{planned.model}"
        if each.enforced and not self._keeper.fails_open:
            raise BudgetExhaustedError(
                f"no price is known for {model}, and the budget {each.budget.id} counts USD; add a price for it to "
                "`prices` in the models file"
            )
        self._keeper.say_now_and_then("budget_without_price", budget=each.budget.id, model=model)

    async def _settle(self, call: ModelCall) -> None:
        reservation = self._open.pop(call.number, None)
        if reservation is None:
            return
        self._keeper.estimates.learn(reservation.planned, call)
        reservation.give_back()
        now_called = self._keeper.holder.id
        signed_by = reservation.signed_by or now_called
        for each in reservation.taken:
            spent = self._keeper.estimates.spent(call, each.place.budget.unit)
            account = each.account
            if account is None or account.holder != signed_by:
                if signed_by != now_called:
                    continue  # a name that is lost: what its rows say is summed up
                account = self._keeper.accounts.of(each.place, since=call.started_at)
            if spent:
                account.spend(spent)
