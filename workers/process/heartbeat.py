"""The heartbeat: renews the leases of the runs in progress, from a thread that no chat can block.

1. A run in progress is registered with its claim and the task that works on it.
2. Every sixth of a lease the thread renews all of them, each conditional on its token, over a client of its own.
3. A run that could not be renewed because its token is old was taken over: its task is cancelled at once.
4. A run that somebody has asked to cancel is told so in the same way, and keeps its lease while its chat closes.
5. A run that was not renewed for half a lease, because MongoDB is away, is cancelled: from one beat to the next it is
   less than half a lease, so its chat is told to stop before the lease ends. Better no owner than two. What it may
   still write after that is the ledger row of a call that was served; all else carries the old token.
6. Should this thread ever die, the process ends: its runs would be taken over while it goes on with them.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import pymongo
from pymongo.errors import ExecutionTimeout, NetworkTimeout, PyMongoError

from workers.process.watchdog import exit_stuck_process
from workers.store.lease_renewals import LeaseRenewals
from workers.store.mongo_repository import BEATS_PER_LEASE
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
    is_finishing: bool = False  # an outcome is known: too late to cancel


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
        self._leased_runs: dict[tuple[str, int], _LeasedRun] = {}  # a process may lose a run and claim it again
        self._lock = threading.Lock()
        self._stop = threading.Event()
        timeout_ms = int(max(self._interval_s / 2, 0.25) * 1000)
        self._leases = LeaseRenewals(url=url, database=database, lease_s=lease_s, timeout_ms=timeout_ms)
        self._thread = threading.Thread(target=self._run_thread, name="heartbeat", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def silent_s(self) -> float:
        """Seconds since its thread last turned, whether there was a lease to renew or not."""
        return time.monotonic() - self._beat_at

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(timeout=self._interval_s * 2)
        self._leases.close()

    def drop(self) -> None:
        """In a forked copy of this process, whose leases these are not."""
        self._leased_runs.clear()

    @contextmanager
    def renew_while(self, claim: Claim) -> Iterator[None]:
        """Keeps the lease while the block runs; the block's task is cancelled when the lease is lost."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a lease is kept for a task")
        kept = _LeasedRun(claim, task, asyncio.get_running_loop(), renewed_at=time.monotonic())
        with self._lock:
            self._leased_runs[claim.run_id, claim.token] = kept
        try:
            yield
        finally:
            kept.is_finishing = True
            with self._lock:
                self._leased_runs.pop((claim.run_id, claim.token), None)

    def is_lost(self, claim: Claim) -> bool:
        kept = self._find(claim)
        return kept is not None and kept.lost

    def cancelled_by(self, claim: Claim) -> str | None:
        """Who asked to cancel this run, once its chat has been told."""
        kept = self._find(claim)
        return None if kept is None else kept.cancelled_by

    def mark_finishing(self, claim: Claim) -> None:
        """Called from the loop: from here on the run is only closed and released, and not cancelled any more."""
        kept = self._find(claim)
        if kept is not None:
            kept.is_finishing = True

    def _find(self, claim: Claim) -> _LeasedRun | None:
        with self._lock:
            return self._leased_runs.get((claim.run_id, claim.token))

    def _run_thread(self) -> None:
        try:
            self._renew_repeatedly()
        except Exception:  # whatever it is, such as no memory: chats would go on beside their next owners
            if not self._stop.is_set():
                log.critical("heartbeat_died", exc_info=True)
                self._on_dead()

    def _renew_repeatedly(self) -> None:
        while not self._stop.wait(self._interval_s):
            self._beat_at = time.monotonic()
            with self._lock:
                kept = list(self._leased_runs.values())
            if not kept:
                continue
            began = time.monotonic()
            try:
                self._renew(kept, began)
            except PyMongoError as error:
                log.warning("heartbeat_failed", extra={"runs": len(kept), "error": type(error).__name__})
            for each in kept:
                if each.lost:  # still here a beat later: something under it swallowed the cancellation
                    each.loop.call_soon_threadsafe(self._cancel_task, each)
                elif time.monotonic() - each.renewed_at > self._lease_s / 2:
                    self._lose_lease(each, "not_renewed")

    def _renew(self, leased_runs: list[_LeasedRun], began: float) -> None:
        try:
            self._extend(leased_runs, began)
        except (NetworkTimeout, ExecutionTimeout):
            if not self._extend_in_halves(leased_runs, began):
                raise
        self._cancel_requested_runs(leased_runs)

    def _extend_in_halves(self, leased_runs: list[_LeasedRun], began: float) -> bool:
        """The loop may stand in the middle of a run's transaction, and all behind that run have waited for its lock.
        Of many the locked one is found in a few steps; those that were renewed longest ago come first."""
        waiting = split_in_halves(sorted(leased_runs, key=lambda each: each.renewed_at, reverse=True))
        while waiting:
            if time.monotonic() - began > self._interval_s * 1.5:
                return False  # it is MongoDB that does not answer
            some = waiting.pop()
            try:
                with pymongo.timeout(max(self._interval_s / 20, 0.05)):
                    self._extend(some, began)
            except (NetworkTimeout, ExecutionTimeout):
                waiting += split_in_halves(some)
        return True

    def _extend(self, leased_runs: list[_LeasedRun], began: float) -> None:
        taken: set[tuple[str, int]] = set()
        if self._leases.extend([each.claim for each in leased_runs]) < len(leased_runs):
            taken = self._find_taken_over(leased_runs)
        for each in leased_runs:
            if (each.claim.run_id, each.claim.token) not in taken:
                each.renewed_at = began
            elif not each.lost:
                self._lose_lease(each, "taken_over")

    def _find_taken_over(self, leased_runs: list[_LeasedRun]) -> set[tuple[str, int]]:
        """Whose token is not the newest, or who was given up meanwhile: queued again, parked, and then maybe cancelled.
        One that left under its own token, while its owner was about to write just that, is not lost: it has not heard
        the answer."""
        now = self._leases.owners([each.claim.run_id for each in leased_runs])
        return {
            (each.claim.run_id, each.claim.token)
            for each in leased_runs
            if (owner := now.get(each.claim.run_id)) is None
            or owner[0] != each.claim.token
            or (owner[1] != RunState.RUNNING.value and not each.is_finishing)
        }

    def _cancel_requested_runs(self, leased_runs: list[_LeasedRun]) -> None:
        ours = {
            (each.claim.run_id, each.claim.token): each
            for each in leased_runs
            if not each.lost and not each.is_finishing
        }
        for key, by in self._leases.cancel_requests([run_id for run_id, _ in ours]).items():
            each = ours.get(key)
            if each is not None:
                each.loop.call_soon_threadsafe(self._cancel_run, each, by)

    @staticmethod
    def _cancel_run(leased_run: _LeasedRun, by: str) -> None:
        """In the loop, like the run itself: a run is either told before its end, or not at all."""
        if not leased_run.is_finishing and not leased_run.task.done():
            leased_run.cancelled_by = by
            leased_run.task.cancel()  # and again at the next beat: a library under the chat may swallow it

    def _lose_lease(self, leased_run: _LeasedRun, reason: LossReason) -> None:
        with self._lock:  # a run that ended while we asked about it was not lost
            if self._leased_runs.get((leased_run.claim.run_id, leased_run.claim.token)) is not leased_run:
                return
            leased_run.lost = True
        lost = {"attempt": leased_run.claim.attempt, "token": leased_run.claim.token, "reason": reason}
        log.warning("lease_lost", extra={**run_labels(leased_run.claim.document), **lost})
        self._on_lost(reason)
        leased_run.loop.call_soon_threadsafe(self._cancel_task, leased_run)

    def _cancel_task(self, leased_run: _LeasedRun) -> None:
        """In the loop, like the run itself: its task may have left it meanwhile, and be at work on the next one."""
        if self._find(leased_run.claim) is leased_run:
            leased_run.task.cancel()


def split_in_halves(leased_runs: list[_LeasedRun]) -> list[list[_LeasedRun]]:
    middle = len(leased_runs) // 2
    return [leased_runs[:middle], leased_runs[middle:]] if middle else []
