"""The run repository in memory. It passes the same contract suite as the one in MongoDB."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import uuid4

from accounting.usage import UsageTotals
from workers.store.run import AT_REST, ISOLATED_LANE_PREFIX, RUN_FORMAT, Claim, Hold, LeaseLostError, RunState
from workers.store.run_document import Document, format_of
from workers.store.run_store import WITHOUT_STEPS
from workers.store.run_store_in_memory import (
    MemoryRuns,
    add_history,
    as_stored,
    clear_lease,
    end_as_cancelled,
    make_ready,
    remove_fields,
)
from workers.store.run_transitions import source_states
from workflows.context.documents.document_access import DocumentWrite
from workflows.context.reads.persistent_states import PersistentState


class MemoryRunRepository:
    """The operations of one owner on runs; several owners may share a store."""

    def __init__(
        self,
        store: MemoryRuns,
        *,
        owner: str,
        lease_s: float = 30.0,
        versions: Callable[[], Mapping[str, str]] = dict,
        run_format: int = RUN_FORMAT,
    ) -> None:
        self._store = store
        self._owner = owner
        self._lease = timedelta(seconds=lease_s)
        self._versions = versions
        self._format = run_format

    async def claim(self, run_id: str) -> Claim | None:
        run = self._store.runs.get(run_id)
        return None if run is None or not self._is_claimable(run) else self._claim(run, self._owner)

    async def claim_first(self, lane: str, *, preferred: str | None = None, urgency: int = 0) -> Claim | None:
        runs = list(self._ready_in(lane))
        if lane.startswith(ISOLATED_LANE_PREFIX):
            owner, preferred = f"{self._owner}/alone-{uuid4().hex[:8]}", None
        else:
            owner = self._owner
        for run in runs:
            if run["_id"] == preferred and run["priority"] >= urgency:
                return self._claim(run, owner)
        return self._claim(runs[0], owner) if runs else None

    async def ready_lanes(self) -> Mapping[str, int]:
        lanes = {run["lane"] for run in self._store.runs.values() if "lane" in run}
        return {lane: max(r["priority"] for r in self._store.runs.values() if r.get("lane") == lane) for lane in lanes}

    def _ready_in(self, lane: str) -> Iterator[Document]:
        """Lists the ready runs of a lane: the most urgent first, then the oldest."""
        found = [run for run in self._store.runs.values() if run.get("lane") == lane and self._is_claimable(run)]
        return iter(sorted(found, key=lambda run: (-run["priority"], run["_id"])))

    def _is_claimable(self, run: Document) -> bool:
        is_due = run["not_before"] is None or run["not_before"] <= self._store.clock()
        is_free = run["state"] in source_states(RunState.RUNNING) and run["hold"] is None
        return is_due and is_free and format_of(run) <= self._format

    def _claim(self, run: Document, owner: str) -> Claim:
        now, is_alone = self._store.clock(), owner != self._owner
        remove_fields(run, ("held_by", "held_until", "lane"))
        lease = {"owner": owner, "token": run["lease"]["token"] + 1, "until": now + self._lease}
        run |= as_stored(
            {
                "hold": None,
                "not_before": None,
                "state": RunState.RUNNING.value,
                "lease": {**lease, **({"alone": True} if is_alone else {})},
                "package_version": run["package_version"] or self._versions().get(run["workflow"]),
                "claimed_at": now,
                "started_at": run["started_at"] or now,
                "format": max(format_of(run), self._format),
            }
        )
        return self._as_claim(run)

    @staticmethod
    def _as_claim(run: Document) -> Claim:
        return Claim(run["_id"], run["lease"]["owner"], run["lease"]["token"], as_stored(run))

    async def find_claim(self, run_id: str, token: int) -> Claim | None:
        run = self._store.runs.get(run_id)
        is_owned = run is not None and run["lease"]["token"] == token and run["state"] == RunState.RUNNING.value
        return self._as_claim(run) if run is not None and is_owned else None

    async def renew(self, claim: Claim) -> None:
        self._require_owned(claim)["lease"]["until"] = self._store.clock() + self._lease

    async def hold(self, claim: Claim, hold: Hold) -> RunState:
        run = self._require_owned(claim, to=RunState.QUEUED)
        never_began = run["started_at"] == run["claimed_at"]
        anew = dict.fromkeys(("started_at", "package_version")) if never_began else {}
        return await self._give_up(run, RunState.QUEUED, {**_hold_fields(hold), **anew})

    async def put_on_hold(self, claim: Claim, hold: Hold, *, reason: str) -> RunState:
        run = self._require_owned(claim, to=RunState.QUEUED)
        add_history(run, "held", reason, self._store.clock())
        return await self._give_up(run, RunState.QUEUED, _hold_fields(hold))

    async def pin_package(self, claim: Claim, version: str) -> None:
        self._require_owned(claim)["package_version"] = version

    async def commit_turn(
        self,
        claim: Claim,
        *,
        number: int,
        turn: Mapping[str, Any],
        checkpoint: Mapping[str, Any],
        writes: Sequence[DocumentWrite] = (),
    ) -> None:
        self._write_turn(claim, number, turn)
        run, moved = self._require_owned(claim), as_stored(checkpoint)
        if run["turn"] != number - 1:
            raise LeaseLostError(claim)
        if writes:
            self._store.write_documents(writes, ())
        # Only losses without a turn in between are charged to the run.
        run |= {"turn": number, "worker_losses": 0, "losses_alone": 0, **moved}

    async def keep_open_turn(self, claim: Claim, *, number: int, turn: Mapping[str, Any]) -> None:
        self._write_turn(claim, number, turn)
        self._require_owned(claim)

    def _write_turn(self, claim: Claim, number: int, turn: Mapping[str, Any]) -> None:
        key = f"{claim.run_id}:{number}"
        before = self._store.turns.get(key)
        if before is not None and before["token"] > claim.token:
            raise LeaseLostError(claim)
        owner = {"run_id": claim.run_id, "app_id": claim.document["app_id"], "number": number, "token": claim.token}
        self._store.turns[key] = as_stored({"_id": key, **turn, **owner})

    async def record_answer(self, claim: Claim, answer: Mapping[str, Any]) -> None:
        run = self._require_owned(claim)
        answers = run.get("answers") or []
        if all((known.get("question") or {}).get("id") != answer["question"]["id"] for known in answers):
            run["answers"] = [*answers, as_stored({"at": self._store.clock(), **answer})]

    async def finish(
        self,
        claim: Claim,
        state: RunState,
        record: Mapping[str, Any],
        *,
        writes: Sequence[DocumentWrite] = (),
        states: Sequence[PersistentState] = (),
    ) -> RunState:
        run, end, now = self._require_owned(claim, to=state), as_stored(record), self._store.clock()
        if (writes or states) and state not in AT_REST:
            self._store.write_documents(writes, states)
        add_history(run, state.value, str((record.get("outcome") or {}).get("reason", "")), now)
        remove_fields(run, ("order_head",))
        end["finished_at"] = now
        if state in AT_REST:
            return await self._give_up(run, state, end)
        clear_lease(run)
        run |= {**end, "state": state.value}
        return state

    async def requeue(self, claim: Claim, *, delay: timedelta, counts_as_attempt: bool, reason: str) -> RunState:
        run, now = self._require_owned(claim, to=RunState.QUEUED), self._store.clock()
        due = now + timedelta(milliseconds=int(delay.total_seconds() * 1000))
        add_history(run, "retry" if counts_as_attempt else "handed_back", reason, now)
        if delay:
            run["not_before"] = due
        else:
            make_ready(run, now)
        queued = {
            "wake_at": due,
            "wakes": 0,
            "attempt": run["attempt"] + int(counts_as_attempt),
            "last_requeue": {"reason": reason, "at": now},
        }
        return await self._give_up(run, RunState.QUEUED, queued)

    async def _give_up(self, run: Document, state: RunState, fields: Mapping[str, Any]) -> RunState:
        """Writes `fields` without awaiting.

        A run with a cancellation request is cancelled instead, with its usage so far.
        """
        clear_lease(run)
        run |= {**fields, "state": state.value}
        requested = run["cancel_requested"]
        if requested is None:
            return state
        end_as_cancelled(run, by=requested["by"], now=self._store.clock())
        if "usage" not in fields:
            run["usage"] = as_stored((await self.usage_totals(run["_id"])).as_json())
        return RunState.CANCELLED

    def _require_owned(self, claim: Claim, *, to: RunState | None = None) -> Document:
        run = self._store.runs.get(claim.run_id)
        if run is None or run["lease"]["token"] != claim.token or run["state"] != RunState.RUNNING.value:
            raise LeaseLostError(claim)
        if to is not None and RunState.RUNNING.value not in source_states(to):
            raise LeaseLostError(claim)
        return run

    async def find(self, run_id: str, *, app_id: str | None = None) -> Document | None:
        run = self._store.runs.get(run_id)
        return None if run is None or app_id not in (None, run["app_id"]) else as_stored(run)

    async def find_linked(self, run_ids: Collection[str]) -> Sequence[Document]:
        found = [run for run_id in run_ids if (run := self._store.runs.get(run_id)) is not None]
        return [
            as_stored({name: run[name] for name in ("_id", "traceparent", "lease") if name in run}) for run in found
        ]

    async def committed_turns(self, run_id: str, *, up_to: int) -> Sequence[Document]:
        found = [turn for turn in self._store.turns.values() if turn["run_id"] == run_id and turn["number"] <= up_to]
        in_order = sorted(found, key=lambda turn: turn["number"])
        return [as_stored({name: turn[name] for name in turn if name not in WITHOUT_STEPS}) for turn in in_order]

    async def open_turn(self, run_id: str, *, number: int) -> Document | None:
        turn = self._store.turns.get(f"{run_id}:{number}")
        return None if turn is None or "steps" not in turn else as_stored(turn)

    async def usage_totals(self, run_id: str) -> UsageTotals:
        return await self._store.usage_totals(run_id)


def _hold_fields(hold: Hold) -> Document:
    held = {"hold": hold.kind.value, "held_by": hold.by}
    return held if hold.until is None else as_stored({**held, "held_until": hold.until})
