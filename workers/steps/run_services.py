"""The services of a run: everything that the steps of the engine use, in one frozen value.

A worker process builds it from its settings and its stores, `unattended run` without any server, and tests in memory.
"""

import random
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from accounting.budgets.budget import Unit
from accounting.budgets.reservation_types import PlannedCall, Settle, reserve_unlimited
from accounting.ledger.ledger import EarlierCalls
from accounting.prices import PriceTable
from accounting.usage import BegunCall, ModelCall, RunOwner
from workers.store.run import Claim, HoldKind, RunState
from workers.store.run_repository import RunRepository
from workers.tracing.tracing import NO_TRACING, Tracing
from workflows.chat.agents.built_packages import BuiltPackage
from workflows.chat.history.transcript import Turn
from workflows.context.context_loader import ContextSources, RunContext, load_context
from workflows.context.redaction import Redactor
from workflows.context.run_facts import RunFacts
from workflows.outcome import OutcomeKind
from workflows.package.normal_form.package_model import Package


class GetPackage(Protocol):
    async def __call__(self, workflow: str, *, version: str | None) -> BuiltPackage:
        """Builds this version of the package, or the present one if this version is gone."""


class UsageLedger(Protocol):
    """The ledger as one run writes and reads it."""

    async def begin(self, owner: RunOwner, *, lease_token: int, call: BegunCall) -> None:
        """Opens the row of a call; raises when the call must not be made."""

    async def record(self, owner: RunOwner, *, lease_token: int, call: ModelCall, holder: str | None = None) -> None:
        """Completes the row of a call, before its answer is used."""

    async def read_earlier_calls(self, run_id: str) -> EarlierCalls:
        """Sums up what all owners of the run have called so far."""


class RunReservations(Protocol):
    """The budgets of one run."""

    async def reserve(self, planned: PlannedCall) -> Settle:
        """Reserves room in each budget that matches; raises when one has none."""

    def holder_of(self, call: ModelCall) -> str | None:
        """Returns the name under which the call was reserved."""


class OpenBudgets(Protocol):
    def __call__(
        self, *, app_id: str, workflow: str, amount_used: Callable[[Unit], int], has_begun: Callable[[], bool]
    ) -> RunReservations:
        """Opens the budgets of one run."""


class RunObserver(Protocol):
    """Notified of each event of a run; a worker counts events for its metrics."""

    def record_start(self, run: Mapping[str, Any]) -> None: ...

    def record_turn(self, workflow: str, turn: Turn) -> None: ...

    def record_model_call(self, workflow: str, call: ModelCall) -> None: ...

    def record_tool_call(self, workflow: str, tool: str, seconds: float, failed: bool) -> None: ...

    def record_retry(self, workflow: str, reason: OutcomeKind) -> None: ...

    def record_hold(self, kind: HoldKind) -> None: ...

    def record_end(self, run: Mapping[str, Any], state: RunState) -> None: ...

    def record_fenced_write(self) -> None: ...


class LeaseRenewal(Protocol):
    """Renews the leases of runs in progress, and cancels the task of a run that is lost or to be cancelled."""

    def renew_while(self, claim: Claim) -> AbstractContextManager[None]:
        """Renews the lease while the block runs, in the current task."""

    def is_lost(self, claim: Claim) -> bool: ...

    def cancelled_by(self, claim: Claim) -> str | None:
        """Returns the requester if the task of the run was cancelled on request."""

    def mark_finishing(self, claim: Claim) -> None:
        """Ignores requests to cancel the run from here on."""


class Shutdown(Protocol):
    """Whether this process is stopping, and the time that is left for it."""

    def is_stopping(self) -> bool: ...

    def interruptible(self) -> AbstractContextManager[None]:
        """Cancels the current task when the grace period of this process ends."""

    def seconds_left(self) -> float:
        """Returns the time that is left to hand a run back."""


LoadContext = Callable[[Package, RunFacts, Mapping[str, Any], ContextSources], Awaitable[RunContext]]


class NoBudgets:
    def __init__(
        self, *, app_id: str, workflow: str, amount_used: Callable[[Unit], int], has_begun: Callable[[], bool]
    ) -> None:
        del app_id, workflow, amount_used, has_begun

    async def reserve(self, planned: PlannedCall) -> Settle:
        return await reserve_unlimited(planned)

    def holder_of(self, call: ModelCall) -> None:
        del call


class NoObserver:
    """Ignores all events; a subclass handles single ones."""

    def record_start(self, run: Mapping[str, Any]) -> None: ...

    def record_turn(self, workflow: str, turn: Turn) -> None: ...

    def record_model_call(self, workflow: str, call: ModelCall) -> None: ...

    def record_tool_call(self, workflow: str, tool: str, seconds: float, failed: bool) -> None: ...

    def record_retry(self, workflow: str, reason: OutcomeKind) -> None: ...

    def record_hold(self, kind: HoldKind) -> None: ...

    def record_end(self, run: Mapping[str, Any], state: RunState) -> None: ...

    def record_fenced_write(self) -> None: ...


@dataclass(frozen=True, slots=True)
class RunServices:
    repository: RunRepository
    get_package: GetPackage
    context_sources: ContextSources
    ledger: UsageLedger
    lease: LeaseRenewal
    shutdown: Shutdown
    events: RunObserver = field(default_factory=NoObserver)
    redactor: Redactor = field(default_factory=Redactor, repr=False)
    prices: PriceTable = field(default_factory=PriceTable)
    open_budgets: OpenBudgets = NoBudgets
    tracing: Tracing = NO_TRACING
    load_context: LoadContext = load_context
    refresh_context: bool = True  # reads variables again before the turns of agents that use them
    random: Callable[[], float] = random.random
    max_attempts: int = 5
    lease_s: float = 30.0
    verbose_debug: bool = False
    store_retry_s: float = 1.0
