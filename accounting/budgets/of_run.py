"""The budgets of a run, as its chat asks them: room in each that matches is reserved before a call and settled after.

In one order for everybody, so that of calls that wait for each other's room one always gets on. What was got before one
of them refuses is given back.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pymongo.errors import PyMongoError

from accounting.budgets.account import Account, ClosedAccountError, SpentError
from accounting.budgets.asking import (
    BudgetBusyError,
    BudgetExhaustedError,
    BudgetHoldError,
    PlannedCall,
    Settle,
)
from accounting.budgets.budget import Unit, amount_in_words
from accounting.budgets.keeper import HELD_BY, Keeper
from accounting.budgets.places import Applying, Place
from accounting.budgets.telling import marks_reached, say, spent_in_words
from accounting.usage import ModelCall

TRIES = 5
ROOM_WITHIN_S = 9.0  # a little less than a chat waits for its budgets


@dataclass(slots=True)
class Reservation:
    """What is reserved where. All of it under one name of this process, which then signs the call's row.
    `is_unanswered`: one could not be asked, and the others are not waited for as long again."""

    planned: PlannedCall
    taken: list[tuple[Account, int]] = field(default_factory=list)
    is_unanswered: bool = False

    @property
    def names(self) -> set[str]:
        return {account.holder for account, _ in self.taken}

    def give_back(self) -> None:
        for account, amount in self.taken:
            account.release(amount)
        self.taken.clear()


class RunBudgets:
    def __init__(
        self,
        keeper: Keeper,
        *,
        app_id: str,
        workflow: str,
        used: Callable[[Unit], int],
        has_begun: Callable[[], bool],
    ) -> None:
        """`used`: what the run itself has used up so far. `has_begun`: it has asked a model; until then it is new."""
        self._keeper = keeper
        self._app_id = app_id
        self._workflow = workflow
        self._used = used
        self._has_begun = has_begun
        self._open: dict[int, Reservation] = {}
        self._said: set[tuple[str, str]] = set()

    async def reserve(self, planned: PlannedCall) -> Settle:
        try:
            all_applying = await self._keeper.definitions.applying(self._app_id, self._workflow)
        except PyMongoError as error:
            if not self._keeper.fails_open:
                raise
            self._keeper.say_not_asked(error)
            return self._only_learn(planned)
        if not all_applying:
            return self._only_learn(planned)
        reservation = Reservation(planned)
        try:
            async with asyncio.timeout(ROOM_WITHIN_S):
                await self._take_all(all_applying, reservation)
        except BaseException as error:
            reservation.give_back()
            if isinstance(error, TimeoutError):
                raise BudgetBusyError("what is left of its budget is reserved by other calls") from None
            raise
        self._open[planned.number] = reservation
        return self._settle

    def signature(self, call: ModelCall) -> str | None:
        """Under which name its row is found by those who sum up what a lost process has spent."""
        reservation = self._open.get(call.number)
        return None if reservation is None else next(iter(reservation.names), None)

    async def _take_all(self, all_applying: Sequence[Applying], reservation: Reservation) -> None:
        for _ in range(TRIES):
            for each in all_applying:
                await self._take(each, reservation)
            if len(reservation.names) <= 1:
                return
            reservation.give_back()  # this process has just come back under another name
        raise ClosedAccountError

    async def _take(self, each: Applying, reservation: Reservation) -> None:
        place = each.place(self._keeper.clock())
        is_priced = self._is_priced(each, reservation.planned)
        if each.budget.window == "run":
            self._check_run(each, place)
        elif is_priced:
            await self._take_in(place, each, reservation)

    async def _take_in(self, place: Place, each: Applying, reservation: Reservation) -> None:
        planned, unit = reservation.planned, each.budget.unit
        needs_an_answer = each.enforced and not self._keeper.fails_open
        if reservation.is_unanswered and not needs_an_answer:
            self._hold(place, reservation)
            return
        try:
            taken = await self._keeper.accounts.reserve(each, lambda: self._estimate(planned, unit) or 1)
        except SpentError as error:
            raise self._refusal(each, place, spent=error.spent) from None
        except (PyMongoError, ClosedAccountError) as error:
            if needs_an_answer:
                raise
            self._keeper.say_not_asked(error)
            reservation.is_unanswered = True
            self._hold(place, reservation)
        else:
            reservation.taken.append(taken)

    def _hold(self, place: Place, reservation: Reservation) -> None:
        """Unasked: what the call takes is told all the same."""
        account = self._keeper.accounts.of(place)
        account.hold(1)
        reservation.taken.append((account, 1))

    def _refusal(self, each: Applying, place: Place, *, spent: int) -> Exception:
        self._keeper.rejections.count(place)
        words = spent_in_words(place, spent)
        if (each.budget.running if self._has_begun() else each.budget.new_runs) == "hold":
            return BudgetHoldError(words, held_by=HELD_BY + each.budget.id, until=place.span.end)
        return BudgetExhaustedError(words)

    def _check_run(self, each: Applying, place: Place) -> None:
        budget = each.budget
        used = self._used(budget.unit)
        for what in marks_reached(used, budget.limit) if place.alerts else ():
            if (what, budget.id) not in self._said:
                self._said.add((what, budget.id))
                say(what, budget, app_id=self._app_id, spent=used)
        if each.enforced and used >= budget.limit:
            self._keeper.rejections.count(place)
            amounts = f"{amount_in_words(budget.unit, used)} of {amount_in_words(budget.unit, budget.limit)}"
            raise BudgetExhaustedError(f"the budget {budget.id} is spent in this run: {amounts}")

    def _is_priced(self, each: Applying, planned: PlannedCall) -> bool:
        """A call without a price counts nothing in USD, where it may be made."""
        if self._estimate(planned, each.budget.unit) is not None:
            return True
        model = f"{planned.provider}/{planned.model}"
        if each.enforced and not self._keeper.fails_open:
            raise BudgetExhaustedError(
                f"no price is known for {model}, and the budget {each.budget.id} counts USD; add a price for it to "
                "`prices` in the models file"
            )
        self._keeper.say_without_price(each.budget, model)
        return False

    def _estimate(self, planned: PlannedCall, unit: Unit) -> int | None:
        return self._keeper.estimate(planned, unit, workflow=self._workflow)

    def _only_learn(self, planned: PlannedCall) -> Settle:
        """Of a call that no budget is asked for: the first budget that is set knows what such calls take."""

        async def learn(call: ModelCall) -> None:
            self._keeper.learn(planned, call, workflow=self._workflow)

        return learn

    async def _settle(self, call: ModelCall) -> None:
        reservation = self._open.pop(call.number, None)
        if reservation is None:
            return
        self._keeper.learn(reservation.planned, call, workflow=self._workflow)
        for account, amount in reservation.taken:
            account.settle(amount, self._keeper.estimates.spent(call, account.place.budget.unit))
