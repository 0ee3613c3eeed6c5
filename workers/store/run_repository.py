"""The interface of the run store that the engine uses, with implementations in MongoDB and in memory.

Each write of an owner carries the fencing token of its claim. It raises LeaseLostError if another owner has the run, or
if its own owner has given it up. `tests/contracts/test_run_repository.py` runs one suite on both implementations.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any, Protocol

from accounting.usage import UsageTotals
from workers.store.run import Claim, Hold, RunState
from workers.store.run_document import Document
from workflows.context.documents.document_access import DocumentWrite
from workflows.context.reads.persistent_states import PersistentState


class LinkedRuns(Protocol):
    """The read that traces need."""

    async def find_linked(self, run_ids: Collection[str]) -> Sequence[Document]:
        """Returns the trace and the newest token of each run that exists."""


class RunRepository(LinkedRuns, Protocol):
    """The runs and turns of one store, as one owner reads and writes them."""

    async def claim(self, run_id: str) -> Claim | None:
        """Claims this run; None when it is finished, held, not due yet, or has an owner."""

    async def claim_first(self, lane: str, *, preferred: str | None = None, urgency: int = 0) -> Claim | None:
        """Claims the next run of this lane; the preferred one where it is at least so urgent."""

    async def ready_lanes(self) -> Mapping[str, int]:
        """Returns the lanes that have ready runs, and the priority of the first run of each."""

    async def find_claim(self, run_id: str, token: int) -> Claim | None:
        """Returns a claim that another process made for this one; None when its lease is gone."""

    async def renew(self, claim: Claim) -> None:
        """Extends the lease by its full length."""

    async def hold(self, claim: Claim, hold: Hold) -> RunState:
        """Requeues a run over a limit, counting neither attempt nor start. Cancels it if that was requested."""

    async def put_on_hold(self, claim: Claim, hold: Hold, *, reason: str) -> RunState:
        """Does the same to a run that has begun; it resumes after its last turn."""

    async def pin_package(self, claim: Claim, version: str) -> None:
        """Records the package version that later owners use, too."""

    async def commit_turn(
        self,
        claim: Claim,
        *,
        number: int,
        turn: Mapping[str, Any],
        checkpoint: Mapping[str, Any],
        writes: Sequence[DocumentWrite] = (),
    ) -> None:
        """Counts turn `number` and stores its checkpoint, together with `writes` or not at all."""

    async def keep_open_turn(self, claim: Claim, *, number: int, turn: Mapping[str, Any]) -> None:
        """Stores the steps of a turn that is not counted yet."""

    async def record_answer(self, claim: Claim, answer: Mapping[str, Any]) -> None:
        """Adds the use of a standing answer, once for each question."""

    async def finish(
        self,
        claim: Claim,
        state: RunState,
        record: Mapping[str, Any],
        *,
        writes: Sequence[DocumentWrite] = (),
        states: Sequence[PersistentState] = (),
    ) -> RunState:
        """Ends or parks the run, together with `writes` and `states` or not at all; returns its new state."""

    async def requeue(self, claim: Claim, *, delay: timedelta, counts_as_attempt: bool, reason: str) -> RunState:
        """Returns the run to the queue, due after `delay`. Cancels it if that was requested."""

    async def find(self, run_id: str, *, app_id: str | None = None) -> Document | None:
        """Returns the run document; None where this app has no such run."""

    async def committed_turns(self, run_id: str, *, up_to: int) -> Sequence[Document]:
        """Returns the counted turns in order, without the steps of their making."""

    async def open_turn(self, run_id: str, *, number: int) -> Document | None:
        """Returns the kept steps of a turn that is not counted yet."""

    async def usage_totals(self, run_id: str) -> UsageTotals:
        """Sums up the ledger's rows of the run; a row that is still open counts as a lost call."""
