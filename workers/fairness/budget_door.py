"""The budgets' door: a claimed run whose budgets are spent is held until there is money again, or ends."""

import logging
from collections.abc import Callable, Mapping
from typing import Any

from accounting.budgets.keeper import Keeper
from accounting.usage import UsageTotals
from workers.store.mongo_repository import MongoRunRepository
from workers.store.run import Claim, Hold, HoldKind, RunState, labels
from workflows.outcome import Outcome, OutcomeError, OutcomeKind

log = logging.getLogger(__name__)


class BudgetDoor:
    def __init__(
        self,
        budgets: Keeper,
        ownership: MongoRunRepository,
        on_refused: Callable[[Mapping[str, Any], RunState], None],
    ) -> None:
        self._budgets = budgets
        self._ownership = ownership
        self._on_refused = on_refused

    async def verdict(self, claim: Claim) -> Hold | RunState | None:
        """What it is to be held by, or the state in which it has just ended; None for one that may go on."""
        run = claim.document
        barred = await self._budgets.barred(run["app_id"], run["workflow"], is_first_start=is_first_start(run))
        if barred is None:
            return None
        if barred.held_by is None:
            return await self._refused(claim, barred.reason)
        return Hold(HoldKind.BUDGET, barred.held_by, barred.until)

    async def _refused(self, claim: Claim, reason: str) -> RunState:
        outcome = Outcome(OutcomeKind.BUDGET_EXHAUSTED, reason, OutcomeError("BudgetExhausted", reason)).as_document()
        state = await self._ownership.finish(
            claim, RunState.FAILED, {"outcome": outcome, "usage": UsageTotals().as_json()}
        )
        self._on_refused(claim.document, state)
        said = {"state": state.value, "outcome": outcome["kind"], "why": reason}
        log.info("run_finished", extra={**labels(claim.document), **said})
        return state


def is_first_start(run: Mapping[str, Any]) -> bool:
    return bool(run["started_at"] == run["claimed_at"])
