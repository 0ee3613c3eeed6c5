"""Admission: whether a claimed run may be worked on, and which run starts when one leaves.

1. A claimed run counts like a running one. If a cap is exceeded by that, the run is requeued and held. Of concurrent
   claims at least one sees all the others, so a cap is never exceeded. One process checks its claims one after the
   other, or a burst of claims would see itself and hold every run.
2. When a run leaves, the next run of each of its limits with room is released, and the next one of its order key. This
   needs neither a scan nor a scheduler, except for runs that wait for a rate.

Without caps and budgets, admission does not query the store. Releases that a dead worker owed are made by
`limit_releases`.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from datetime import timedelta
from typing import Any, Protocol

from pymongo.errors import PyMongoError

from accounting.usage import UsageTotals
from workers.admission.limits.limit import Refused
from workers.store.run import Claim, Hold, HoldKind, LeaseLostError, RunState, run_labels
from workers.store.run_repository import RunRepository
from workers.wakeup_sender import WakeupSender
from workflows.outcome import Outcome, OutcomeError, OutcomeKind

log = logging.getLogger(__name__)


class AdmittingLimits(Protocol):
    """The limits of this process (`workers.admission.limits.all_limits`)."""

    async def admit(self, claim: Claim) -> Hold | Refused | None: ...

    def release_after(self, claim: Claim) -> AsyncIterator[str]: ...


def _ignore_end(run: Mapping[str, Any], state: RunState) -> None:
    del run, state


class Admission:
    def __init__(
        self,
        limits: AdmittingLimits,
        repository: RunRepository,
        wakeups: WakeupSender,
        *,
        has_caps: bool,
        on_held: Callable[[HoldKind], None],
        on_fenced: Callable[[], None],
        on_refused: Callable[[Mapping[str, Any], RunState], None] = _ignore_end,
    ) -> None:
        """With `has_caps` claims are admitted one after the other."""
        self._limits = limits
        self._repository = repository
        self._wakeups = wakeups
        self._has_caps = has_caps
        self._on_held = on_held
        self._on_fenced = on_fenced
        self._on_refused = on_refused
        self._lock = asyncio.Lock()

    def exclusive(self) -> AbstractAsyncContextManager[Any]:
        return self._lock if self._has_caps else nullcontext()

    async def try_admit(self, claim: Claim) -> bool:
        """Returns False if the run was requeued or has ended, so that this worker no longer owns it."""
        try:
            verdict = await self._limits.admit(claim)
            if verdict is None:
                return True
            if isinstance(verdict, Hold):
                await self._hold_run(claim, verdict)
            else:
                await self._refuse(claim, verdict.reason)
        except LeaseLostError:
            self._on_fenced()
            return False
        except PyMongoError as error:
            await self._requeue(claim, reason=f"store unavailable: {type(error).__name__}")
            raise
        await self.release_after(claim)
        return False

    async def _hold_run(self, claim: Claim, hold: Hold) -> None:
        if await self._repository.hold(claim, hold) is RunState.QUEUED:
            self._on_held(hold.kind)
            log.info("run_held", extra={**run_labels(claim.document), "hold": hold.kind.value, "by": hold.by})
        else:
            log.info("run_cancelled", extra={**run_labels(claim.document), "why": "before it started"})

    async def _refuse(self, claim: Claim, reason: str) -> None:
        outcome = Outcome(OutcomeKind.BUDGET_EXHAUSTED, reason, OutcomeError("BudgetExhausted", reason)).as_document()
        end = {"outcome": outcome, "usage": UsageTotals().as_json()}
        state = await self._repository.finish(claim, RunState.FAILED, end)
        self._on_refused(claim.document, state)
        extra = {"state": state.value, "outcome": outcome["kind"], "why": reason}
        log.info("run_finished", extra={**run_labels(claim.document), **extra})

    async def _requeue(self, claim: Claim, *, reason: str) -> None:
        with suppress(PyMongoError, LeaseLostError):  # otherwise the reconciler finds the run by its lease
            await self._repository.requeue(claim, delay=timedelta(0), counts_as_attempt=False, reason=reason)

    async def release_after(self, claim: Claim) -> str | None:
        """Returns a run that may start in place of the one that left.

        Sends wake-ups for further ones.
        """
        released: list[str] = []
        try:
            async for run_id in self._limits.release_after(claim):
                released.append(run_id)  # noqa: PERF401 -- those before a failure count
        except PyMongoError as error:
            log.warning(
                "release_left_to_reconciler", extra={**run_labels(claim.document), "error": type(error).__name__}
            )
        for run_id in released[1:]:
            self._wakeups.send(run_id)
        return released[0] if released else None
