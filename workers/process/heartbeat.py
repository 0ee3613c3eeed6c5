"""The heartbeat: renews the leases of the runs in progress, in a thread that no chat can block.

1. A run in progress is registered with its claim and its task.
2. Every sixth of a lease the thread renews all leases, each conditional on its token, over its own client.
3. If a renewal fails because the token is old, the run was taken over: its task is cancelled at once.
4. A run with a cancellation request is cancelled in the same way, and keeps its lease while its chat closes.
5. A run without a renewal for half a lease, because MongoDB is unavailable, is cancelled. The interval between beats is
   less than half a lease, so its chat stops before the lease ends: a run without an owner is better than a run with
   two. Only the ledger row of a served call may still be written after that; all other writes carry the old token.
6. If this thread dies, the process ends: otherwise its runs would be taken over while it goes on with them.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from pymongo.errors import ExecutionTimeout, NetworkTimeout, PyMongoError

from workers.process.watchdog import exit_stuck_process
from workers.store.claimed_runs import BEATS_PER_LEASE
from workers.store.lease_renewals import LeaseRenewals
from workers.store.run import Claim, RunState, run_labels

log = logging.getLogger(__name__)

LossReason = Literal["taken_over", "not_renewed"]


@dataclass(slots=True)
class _LeasedRun:
    claim: Claim
    task: asyncio.Task[Any]
    loop: asyncio.AbstractEventLoop
    renewed_at: float
    lost: bool = False
    cancelled_by: str | None = None
    is_finishing: bool = False  # the outcome is known: too late to cancel


class Heartbeat:
    def __init__(
        self,
        *,
        url: str,
        database: str,
        lease_s: int,
        on_lost: Callable[[LossReason], None],
        on_dead: Callable[[], None] = exit_stuck_process,
    ) -> None:
        self._lease_s = lease_s
        self._interval_s = lease_s / BEATS_PER_LEASE
        self._beat_at = time.monotonic()
        self._on_lost = on_lost
        self._on_dead = on_dead
        self._leased_runs: dict[tuple[str, int], _LeasedRun] = {}  # the process may lose a run and claim it again
        self._lock = threading.Lock()
        self._stop = threading.Event()
        timeout_ms = int(max(self._interval_s / 2, 0.25) * 1000)
        self._leases = LeaseRenewals(url=url, database=database, lease_s=lease_s, timeout_ms=timeout_ms)
        self._thread = threading.Thread(target=self._run_thread, name="heartbeat", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def silent_s(self) -> float:
        """Returns the seconds since the last beat of the thread, with or without leases to renew."""
        return time.monotonic() - self._beat_at

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(timeout=self._interval_s * 2)
        self._leases.close()

    def drop(self) -> None:
        """Forgets all leases in a forked copy of this process, which does not own them."""
        self._leased_runs.clear()

    @contextmanager
    def renew_while(self, claim: Claim) -> Iterator[None]:
        """Renews the lease while the block runs.

        Cancels the task of the block if the lease is lost.
        """
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a lease is renewed for a task")
        leased = _LeasedRun(claim, task, asyncio.get_running_loop(), renewed_at=time.monotonic())
        with self._lock:
            self._leased_runs[claim.run_id, claim.token] = leased
        try:
            yield
        finally:
            leased.is_finishing = True
            with self._lock:
                self._leased_runs.pop((claim.run_id, claim.token), None)

    def is_lost(self, claim: Claim) -> bool:
        leased = self._find(claim)
        return leased is not None and leased.lost

    def cancelled_by(self, claim: Claim) -> str | None:
        """Returns the requester if the task of this run was cancelled on request."""
        leased = self._find(claim)
        return None if leased is None else leased.cancelled_by

    def mark_finishing(self, claim: Claim) -> None:
        """Ignores cancellation requests from here on. Called in the loop.

        The run is only closed and released afterwards.
        """
        leased = self._find(claim)
        if leased is not None:
            leased.is_finishing = True

    def _find(self, claim: Claim) -> _LeasedRun | None:
        with self._lock:
            return self._leased_runs.get((claim.run_id, claim.token))

    def _run_thread(self) -> None:
        try:
            self._renew_repeatedly()
        except Exception:  # any error, such as a MemoryError: chats would go on next to their new owners
            if not self._stop.is_set():
                log.critical("heartbeat_died", exc_info=True)
                self._on_dead()

    def _renew_repeatedly(self) -> None:
        while not self._stop.wait(self._interval_s):
            self._beat_at = time.monotonic()
            with self._lock:
                leased_runs = list(self._leased_runs.values())
            if not leased_runs:
                continue
            began = time.monotonic()
            try:
                self._renew(leased_runs, began)
            except PyMongoError as error:
                log.warning("heartbeat_failed", extra={"runs": len(leased_runs), "error": type(error).__name__})
            for leased in leased_runs:
                if leased.lost:  # still registered a beat later: a library swallowed the cancellation
                    leased.loop.call_soon_threadsafe(self._cancel_task, leased)
                elif time.monotonic() - leased.renewed_at > self._lease_s / 2:
                    self._lose_lease(leased, "not_renewed")

    def _renew(self, leased_runs: list[_LeasedRun], began: float) -> None:
        try:
            self._extend(leased_runs, began)
        except (NetworkTimeout, ExecutionTimeout):
            if not self._extend_in_halves(leased_runs, began):
                raise
        self._cancel_requested_runs(leased_runs)

    def _extend_in_halves(self, leased_runs: list[_LeasedRun], began: float) -> bool:
        """Renews the leases of a batch that timed out, and halves each part in which a run is locked.

        The loop may be in the middle of a transaction of a run, and the batch waits for its lock. Halving finds the
        locked run in a few steps, without waiting for it. The leases with the oldest renewals come first.
        """
        waiting = split_in_halves(sorted(leased_runs, key=lambda leased: leased.renewed_at, reverse=True))
        while waiting:
            if time.monotonic() - began > self._interval_s * 1.5:
                return False  # MongoDB does not answer
            chunk = waiting.pop()
            matched = self._leases.extend_unless_locked([leased.claim for leased in chunk])
            if matched is None:
                waiting += split_in_halves(chunk)
            else:
                self._note_renewals(chunk, began, matched)
        return True

    def _extend(self, leased_runs: list[_LeasedRun], began: float) -> None:
        self._note_renewals(leased_runs, began, self._leases.extend([leased.claim for leased in leased_runs]))

    def _note_renewals(self, leased_runs: list[_LeasedRun], began: float, matched: int) -> None:
        taken = self._find_taken_over(leased_runs) if matched < len(leased_runs) else set()
        for leased in leased_runs:
            if (leased.claim.run_id, leased.claim.token) not in taken:
                leased.renewed_at = began
            elif not leased.lost:
                self._lose_lease(leased, "taken_over")

    def _find_taken_over(self, leased_runs: list[_LeasedRun]) -> set[tuple[str, int]]:
        """Returns the runs whose token is old, or that were given up: queued again, parked or then cancelled.

        A run that was released under its own token, while its owner was writing just that, is not lost: its owner has
        not received the response yet.
        """
        now = self._leases.owners([leased.claim.run_id for leased in leased_runs])
        return {
            (leased.claim.run_id, leased.claim.token)
            for leased in leased_runs
            if (owner := now.get(leased.claim.run_id)) is None
            or owner[0] != leased.claim.token
            or (owner[1] != RunState.RUNNING.value and not leased.is_finishing)
        }

    def _cancel_requested_runs(self, leased_runs: list[_LeasedRun]) -> None:
        ours = {
            (leased.claim.run_id, leased.claim.token): leased
            for leased in leased_runs
            if not leased.lost and not leased.is_finishing
        }
        for key, by in self._leases.cancel_requests([run_id for run_id, _ in ours]).items():
            leased = ours.get(key)
            if leased is not None:
                leased.loop.call_soon_threadsafe(self._cancel_run, leased, by)

    @staticmethod
    def _cancel_run(leased_run: _LeasedRun, by: str) -> None:
        """Cancels the run in the loop, so that a cancellation never arrives after the end of the run."""
        if not leased_run.is_finishing and not leased_run.task.done():
            leased_run.cancelled_by = by
            leased_run.task.cancel()  # repeated at the next beat, since a library under the chat may swallow it

    def _lose_lease(self, leased_run: _LeasedRun, reason: LossReason) -> None:
        with self._lock:  # a run that ended during the query was not lost
            if self._leased_runs.get((leased_run.claim.run_id, leased_run.claim.token)) is not leased_run:
                return
            leased_run.lost = True
        lost = {"attempt": leased_run.claim.attempt, "token": leased_run.claim.token, "reason": reason}
        log.warning("lease_lost", extra={**run_labels(leased_run.claim.document), **lost})
        self._on_lost(reason)
        leased_run.loop.call_soon_threadsafe(self._cancel_task, leased_run)

    def _cancel_task(self, leased_run: _LeasedRun) -> None:
        """Cancels the task in the loop.

        The task may have left the run meanwhile and work on the next one.
        """
        if self._find(leased_run.claim) is leased_run:
            leased_run.task.cancel()


def split_in_halves(leased_runs: list[_LeasedRun]) -> list[list[_LeasedRun]]:
    middle = len(leased_runs) // 2
    return [leased_runs[:middle], leased_runs[middle:]] if middle else []
