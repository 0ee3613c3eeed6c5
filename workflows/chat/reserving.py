"""Reserving: a model call asks its budgets before it is made, and tells them what it took."""

import asyncio
import logging

from accounting.budgets.asking import (
    BudgetBusyError,
    BudgetExhaustedError,
    BudgetHoldError,
    PlannedCall,
    Settle,
)
from accounting.usage import ModelCall
from workflows.chat.errors import BudgetBusy, BudgetExhausted, BudgetHeld, BudgetUnknown
from workflows.chat.live import LiveTurn

log = logging.getLogger(__name__)

BUDGET_TIMEOUT_S = 10.0


async def reserve_budget(live: LiveTurn, planned: PlannedCall) -> Settle:
    asked = f"for {live.asker} in turn {live.number}"
    try:
        async with asyncio.timeout(BUDGET_TIMEOUT_S):
            return await live.chat.meter.reserve(planned)
    except BudgetExhaustedError as error:
        raise BudgetExhausted(f"{error}; nothing was reserved {asked}") from None
    except BudgetHoldError as error:
        raise BudgetHeld(f"{error}; nothing was reserved {asked}", held_by=error.held_by, until=error.until) from None
    except BudgetBusyError as error:
        raise BudgetBusy(f"{error}; nothing was reserved {asked}") from None
    except Exception as error:
        raise BudgetUnknown(f"the budget cannot be asked {asked}: {type(error).__name__}") from error


async def settle_budget(settle: Settle, call: ModelCall) -> None:
    """Once for each reservation. One that cannot be settled expires; the answer is paid for and used."""
    try:
        async with asyncio.timeout(BUDGET_TIMEOUT_S):
            await settle(call)
    except Exception as error:  # noqa: BLE001 -- whatever a budget is kept in may be away
        log.warning("budget_not_settled", extra={"call": call.number, "error": type(error).__name__})
