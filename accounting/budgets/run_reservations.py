"""Budgets of a run: reserve room before a model call and settle after it.

Budgets are acquired in a fixed order, so concurrent calls cannot deadlock. After a refusal, the reservations made so
far are released.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pymongo.errors import PyMongoError

from accounting.budgets.budget import Unit, format_amount
from accounting.budgets.budget_alerts import describe_spent, log_alert, thresholds_reached
from accounting.budgets.budget_service import HELD_BY_PREFIX, BudgetService
from accounting.budgets.effective_budgets import BudgetWindow, EffectiveBudget
from accounting.budgets.reservation_types import (
    BudgetBusyError,
    BudgetExhaustedError,
    BudgetHoldError,
    PlannedCall,
    Settle,
)
from accounting.budgets.window_accounts import Account, AccountClosedError, WindowSpentError
from accounting.usage import ModelCall

MAX_TRIES = 5


@dataclass(slots=True)
class Reservation:
    """The reservations of one call.

    All are under one name of this process, which then signs the ledger row. `is_unanswered`: one budget could not be
    asked, so the others are not waited for as long.
    """

    planned: PlannedCall
    entries: list[tuple[Account, int]] = field(default_factory=list)
    is_unanswered: bool = False

    @property
    def holders(self) -> set[str]:
        return {account.holder for account, _ in self.entries}

    def release(self) -> None:
        for account, amount in self.entries:
            account.release(amount)
        self.entries.clear()


class RunBudgets:
    def __init__(
        self,
        service: BudgetService,
        *,
        app_id: str,
        workflow: str,
        amount_used: Callable[[Unit], int],
        has_begun: Callable[[], bool],
    ) -> None:
        """`amount_used` returns what the run has used so far.

        `has_begun`: the run has called a model; until then it counts as new.
        """
        self._service = service
        self._app_id = app_id
        self._workflow = workflow
        self._amount_used = amount_used
        self._has_begun = has_begun
        self._open_reservations: dict[int, Reservation] = {}
        self._logged_alerts: set[tuple[str, str]] = set()

    async def reserve(self, planned: PlannedCall) -> Settle:
        try:
            effective = await self._service.cache.effective_budgets(self._app_id, self._workflow)
        except PyMongoError as error:
            if not self._service.fails_open:
                raise
            self._service.log_unchecked(error)
            return self._observe_only(planned)
        if not effective:
            return self._observe_only(planned)
        reservation = Reservation(planned)
        try:
            async with asyncio.timeout(self._service.options.room_timeout_s):
                await self._reserve_all(effective, reservation)
        except BaseException as error:
            reservation.release()
            if isinstance(error, TimeoutError):
                raise BudgetBusyError("what is left of its budget is reserved by other calls") from None
            raise
        self._open_reservations[planned.number] = reservation
        return self._settle

    def holder_of(self, call: ModelCall) -> str | None:
        """Returns the name that signs the row of a call.

        The reconciler finds rows of a lost process by it.
        """
        reservation = self._open_reservations.get(call.number)
        return None if reservation is None else next(iter(reservation.holders), None)

    async def _reserve_all(self, budgets: Sequence[EffectiveBudget], reservation: Reservation) -> None:
        for _ in range(MAX_TRIES):
            for budget in budgets:
                await self._reserve_one(budget, reservation)
            if len(reservation.holders) <= 1:
                return
            reservation.release()  # this process has got another name meanwhile
        raise AccountClosedError

    async def _reserve_one(self, effective: EffectiveBudget, reservation: Reservation) -> None:
        window = effective.window_at(self._service.clock())
        is_priced = self._is_priced(effective, reservation.planned)
        if effective.budget.window == "run":
            self._check_run_window(effective, window)
        elif is_priced:
            await self._reserve_in_window(window, effective, reservation)

    async def _reserve_in_window(
        self, window: BudgetWindow, effective: EffectiveBudget, reservation: Reservation
    ) -> None:
        planned, unit = reservation.planned, effective.budget.unit
        needs_reply = effective.is_enforced and not self._service.fails_open
        if reservation.is_unanswered and not needs_reply:
            self._reserve_unchecked(window, reservation)
            return
        try:
            entry = await self._service.accounts.reserve(effective, lambda: self._estimate(planned, unit) or 1)
        except WindowSpentError as error:
            raise self._build_refusal(effective, window, spent=error.spent) from None
        except (PyMongoError, AccountClosedError) as error:
            if needs_reply:
                raise
            self._service.log_unchecked(error)
            reservation.is_unanswered = True
            self._reserve_unchecked(window, reservation)
        else:
            reservation.entries.append(entry)

    def _reserve_unchecked(self, window: BudgetWindow, reservation: Reservation) -> None:
        """Reserves without asking; the usage of the call is counted all the same."""
        account = self._service.accounts.get_account(window)
        account.reserve_unchecked(1)
        reservation.entries.append((account, 1))

    def _build_refusal(self, effective: EffectiveBudget, window: BudgetWindow, *, spent: int) -> Exception:
        self._service.rejections.count(window)
        reason = describe_spent(window, spent)
        if (effective.budget.running if self._has_begun() else effective.budget.new_runs) == "hold":
            return BudgetHoldError(reason, held_by=HELD_BY_PREFIX + effective.budget.id, until=window.span.end)
        return BudgetExhaustedError(reason)

    def _check_run_window(self, effective: EffectiveBudget, window: BudgetWindow) -> None:
        budget = effective.budget
        used = self._amount_used(budget.unit)
        for event in thresholds_reached(used, budget.limit) if window.has_alerts else ():
            if (event, budget.id) not in self._logged_alerts:
                self._logged_alerts.add((event, budget.id))
                log_alert(event, budget, app_id=self._app_id, spent=used)
        if effective.is_enforced and used >= budget.limit:
            self._service.rejections.count(window)
            amounts = f"{format_amount(budget.unit, used)} of {format_amount(budget.unit, budget.limit)}"
            raise BudgetExhaustedError(f"the budget {budget.id} is spent in this run: {amounts}")

    def _is_priced(self, effective: EffectiveBudget, planned: PlannedCall) -> bool:
        """Checks that a call has a price.

        Without one it may be made only under a soft budget or with `fails_open`, and counts nothing.
        """
        if self._estimate(planned, effective.budget.unit) is not None:
            return True
        model = f"{planned.provider}/{planned.model}"
        if effective.is_enforced and not self._service.fails_open:
            raise BudgetExhaustedError(
                f"no price is known for {model}, and the budget {effective.budget.id} counts USD; add a price for it "
                "to `prices` in the models file"
            )
        self._service.log_missing_price(effective.budget, model)
        return False

    def _estimate(self, planned: PlannedCall, unit: Unit) -> int | None:
        return self._service.estimate(planned, unit, workflow=self._workflow)

    def _observe_only(self, planned: PlannedCall) -> Settle:
        """Only observes the call, as no budget applies.

        So the first budget that is set has estimates of such calls.
        """

        async def observe(call: ModelCall) -> None:
            self._service.observe(planned, call, workflow=self._workflow)

        return observe

    async def _settle(self, call: ModelCall) -> None:
        reservation = self._open_reservations.pop(call.number, None)
        if reservation is None:
            return
        self._service.observe(reservation.planned, call, workflow=self._workflow)
        for account, amount in reservation.entries:
            account.settle(amount, self._service.estimates.amount_spent(call, account.window.budget.unit))
