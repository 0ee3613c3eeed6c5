"""Runs and turns in memory, with the rules of MongoDB: for `unattended run` and fast tests.

Documents are stored as BSON would return them, so values that MongoDB refuses are refused here as well. Each operation
is one step of the event loop, so commands are atomic as in MongoDB.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from bson import decode, encode
from bson.codec_options import CodecOptions
from pymongo.errors import DocumentTooLarge

from accounting.usage import UsageTotals
from workers.store.run import ISOLATED_LANE_PREFIX, SUSPECT_LOSSES, Accepted, RunRequest, RunState
from workers.store.run_document import MAX_HISTORY, MAX_REASON, Document, run_document
from workers.store.run_order import ORDER_PREFIX, as_head, as_held, order_key_of
from workers.store.run_transitions import source_states
from workers.store.worker_losses import (
    describe_losses,
    loss_reason,
    pause_before_next,
    target_of,
)
from workflows.context.documents.document_access import DocumentWrite
from workflows.context.reads.persistent_states import PersistentState
from workflows.outcome import OutcomeKind

_UTC: CodecOptions[Document] = CodecOptions(tz_aware=True)
_MAX_DOCUMENT = 16 * 1024 * 1024

WriteDocuments = Callable[[Sequence[DocumentWrite], Sequence[PersistentState]], None]
"""Writes all documents and states of one step, or raises and writes none."""


def _write_nothing(writes: Sequence[DocumentWrite], states: Sequence[PersistentState]) -> None:
    del writes, states


async def _no_usage(run_id: str) -> UsageTotals:
    del run_id
    return UsageTotals()


class MemoryRuns:
    def __init__(
        self,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        usage_totals: Callable[[str], Awaitable[UsageTotals]] = _no_usage,
        write_documents: WriteDocuments = _write_nothing,
        republish_after: timedelta = timedelta(seconds=15),
    ) -> None:
        self._clock = clock
        self.usage_totals = usage_totals
        self.write_documents = write_documents
        self._republish_after = republish_after
        self.runs: dict[str, Document] = {}
        self.turns: dict[str, Document] = {}

    def clock(self) -> datetime:
        """Returns the time in whole milliseconds, as BSON stores it."""
        now = self._clock()
        return now.replace(microsecond=now.microsecond // 1000 * 1000)

    def document(self, run_id: str) -> Document:
        return as_stored(self.runs[run_id])

    def turn(self, run_id: str, number: int) -> Document:
        return as_stored(self.turns[f"{run_id}:{number}"])

    async def insert(self, request: RunRequest) -> Accepted:
        """Inserts a run. A second request for the same event gets the first run."""
        for run in self.runs.values():
            if run["dedupe_key"] == request.dedupe_key:
                return Accepted(run["_id"], created=False)
        run = run_document(request, now=self.clock(), republish_after=self._republish_after)
        key = order_key_of(run)
        if key is not None:
            run = as_held(run) if self._head_of(key) or self._waiting_for(key) else as_head(run)
        self.runs[run["_id"]] = as_stored(run)
        return Accepted(run["_id"], created=True, ready="lane" in run)

    async def release_next_in_order(self, key: str) -> str | None:
        """Makes the first run that waits for this order key its head.

        Returns None while the key has a head, or if none waits.
        """
        waiting = self._waiting_for(key)
        if self._head_of(key) is not None or not waiting:
            return None
        run = min(waiting, key=lambda run: (run["order"]["seq"], run["_id"]))
        is_later = run["not_before"] is not None and run["not_before"] > self.clock()
        run |= {"order_head": key, "hold": None, "ready_at": self.clock(), "wakes": 0}
        run |= {"wake_at": run["not_before"] if is_later else self.clock() + self._republish_after}
        run.pop("held_by", None)
        if not is_later:
            run |= {"lane": lane_of(run), "not_before": None}
        return str(run["_id"])

    async def release_held(self, limit: str) -> Sequence[str]:
        """Makes all runs ready that this limit holds."""
        held = [run for run in self.runs.values() if run.get("held_by") == limit]
        for run in held:
            make_ready(run, self.clock())
            run |= {"wake_at": self.clock() + self._republish_after, "wakes": 0}
        return [run["_id"] for run in held]

    async def request_cancel(self, run_id: str, *, by: str) -> RunState:
        """Cancels a waiting run; marks a running one for its owner.

        Returns the state of the run.
        """
        run = self.runs[run_id]
        state = RunState(run["state"])
        if state is RunState.RUNNING:
            run["cancel_requested"] = run["cancel_requested"] or {"at": self.clock(), "by": by}
        elif state.value in source_states(RunState.CANCELLED):
            run["usage"] = as_stored((await self.usage_totals(run_id)).as_json())
            end_as_cancelled(run, by=by, now=self.clock())
            return RunState.CANCELLED
        return state

    async def reclaim_expired(self) -> Mapping[str, RunState]:
        """Charges each run with an expired lease with the loss of its worker.

        Returns the new state of each.
        """
        now = self.clock()
        expired = [
            run for run in self.runs.values() if run["state"] == RunState.RUNNING.value and run["lease"]["until"] < now
        ]
        return {run["_id"]: await self._charge(run, why="its lease ran out") for run in expired}

    async def _charge(self, run: Document, *, why: str) -> RunState:
        losses, alone = run["worker_losses"] + 1, run.get("losses_alone") or 0
        target, now = target_of(run, losses, alone), self.clock()
        add_history(run, OutcomeKind.WORKER_LOST.value, f"{why}; {describe_losses(losses, alone)}", now)
        pause_s = pause_before_next(run, losses, alone, seen_isolated=False)
        clear_lease(run)
        run |= {"worker_losses": losses, "losses_alone": alone, "state": target.value}
        if target is RunState.QUEUED:
            run |= {"wakes": 0, "wake_at": now, "last_requeue": {"reason": OutcomeKind.WORKER_LOST.value, "at": now}}
            if pause_s:
                run["not_before"] = run["wake_at"] = now + timedelta(seconds=pause_s)
            else:
                make_ready(run, now)
            return target
        run["usage"] = as_stored((await self.usage_totals(run["_id"])).as_json())
        if target is RunState.CANCELLED:
            end_as_cancelled(run, by=run["cancel_requested"]["by"], now=now)
            return target
        remove_fields(run, ("order_head",))
        outcome = {"kind": OutcomeKind.WORKER_LOST.value, "reason": loss_reason(losses, alone), "error": None}
        run |= {"outcome": outcome, "finished_at": now}
        return target

    def _head_of(self, key: str) -> Document | None:
        return next((run for run in self.runs.values() if run.get("order_head") == key), None)

    def _waiting_for(self, key: str) -> list[Document]:
        return [run for run in self.runs.values() if run.get("held_by") == ORDER_PREFIX + key]


def as_stored(document: Mapping[str, Any]) -> Document:
    """Returns a copy as BSON returns it. Raises BSONError for values that BSON cannot hold."""
    data = encode(document)
    if len(data) > _MAX_DOCUMENT:
        raise DocumentTooLarge(f"a document of {len(data)} bytes is larger than 16 MB")
    return decode(data, _UTC)


def lane_of(run: Mapping[str, Any]) -> str:
    """Returns the lane of a run: suspects have lanes that only isolated processes serve."""
    return f"{ISOLATED_LANE_PREFIX if run['worker_losses'] >= SUSPECT_LOSSES else ''}{run['app_id']}"


def remove_fields(run: Document, names: Iterable[str]) -> None:
    for name in names:
        run.pop(name, None)


def clear_lease(run: Document) -> None:
    run["lease"] |= {"owner": None, "until": None}


def make_ready(run: Document, now: datetime) -> None:
    remove_fields(run, ("held_by", "held_until"))
    run |= {"hold": None, "lane": lane_of(run), "not_before": None, "ready_at": now}


def end_as_cancelled(run: Document, *, by: str, now: datetime) -> None:
    remove_fields(run, ("held_by", "held_until", "lane", "order_head", "questions"))
    outcome = {"kind": OutcomeKind.CANCELLED.value, "reason": f"cancelled by {by}", "error": None}
    run |= {"state": RunState.CANCELLED.value, "outcome": outcome, "finished_at": now}
    run |= dict.fromkeys(("hold", "question", "not_before"))


def add_history(run: Document, how: str, reason: str, now: datetime) -> None:
    line = {
        "token": run["lease"]["token"],
        "owner": run["lease"]["owner"],
        "from": run["claimed_at"],
        "until": now,
        "turn": run["turn"],
        "package_version": run["package_version"],
        "ended": how,
        "reason": reason[:MAX_REASON],
        **({"alone": True} if run["lease"].get("alone") is True else {}),
    }
    run["history"] = [*(run.get("history") or ()), line][-MAX_HISTORY:]
