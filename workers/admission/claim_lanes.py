"""Lanes: one for each app with ready runs. Workers serve them in turn.

A wake-up is a ticket to start one run, and does not name a run. Redis delivers tickets in their order, so an app that
sends ten thousand runs would delay every other app. A worker with a ticket therefore takes the first run of the next
lane. There are as many tickets as ready runs, so each run is claimed in the end.

1. The worker reads the lanes at most every `REFRESH_INTERVAL_S`: one index seek for each app with ready runs, however
   long its backlog is. If there are so many apps that this takes long, it reads them less often.
2. The next lane is the one after the last, in order of names. Nothing is awaited in between, so concurrent claims of
   this process take runs of different apps.
3. An empty lane is skipped until the next refresh. A ticket is dropped only if a refresh that began after its arrival
   finds no lane. Empty lanes alone are not enough: another worker may have taken the run of this ticket and left the
   ticket of its own run to this worker.
4. A run over a cap is held, and its ticket goes on with the next lane like a new one: another run may have been
   released instead.
5. Suspects of killing their workers have lanes of their own, one for each app, which take turns with the others. A
   worker reads them only while it has a free process for one (`workers.process.isolated_processes`).
"""

import asyncio
import logging
import time
from bisect import bisect_right
from collections.abc import Callable, Mapping
from typing import Protocol

from workers.admission.run_admission import Admission
from workers.store.run import ISOLATED_LANE_PREFIX, Claim
from workers.store.run_repository import RunRepository

REFRESH_INTERVAL_S = 0.03
REFRESH_SHARE = 10  # refreshes take at most one part in this many of the time
MAX_REFRESH_INTERVAL_S = 1.0  # a refresh may have been delayed by an election or a tool
# Other workers may win each race, but this often only if a lane has runs that no worker may claim.
MAX_REFRESHES = 20

log = logging.getLogger(__name__)


class IsolationSlots(Protocol):
    """Slots for isolated runs, each in a process of its own."""

    def has_room(self) -> bool:
        """Returns whether another isolated run may begin now."""

    def reserve(self) -> bool:
        """Takes a slot; returns False if none is free."""

    def release(self) -> None:
        """Gives a reserved slot back."""


class _NoIsolationSlots:
    def has_room(self) -> bool:
        return False

    def reserve(self) -> bool:
        return False

    def release(self) -> None:
        raise RuntimeError("no slot was reserved")


class LaneSnapshot:
    """The lanes in order of names, with the priority of the first run of each."""

    def __init__(self, urgency: Mapping[str, int], *, began: float) -> None:
        self.began_at = began
        self.was_empty = not urgency
        self._urgency = urgency
        self._names = sorted(urgency)

    def __len__(self) -> int:
        return len(self._names)

    def lane_after(self, last: str) -> str | None:
        """Returns the next lane in turn; None if all are empty."""
        if not self._names:
            return None
        return self._names[bisect_right(self._names, last) % len(self._names)]

    def urgency_of(self, lane: str) -> int:
        return self._urgency.get(lane, 0)

    def remove(self, lane: str) -> None:
        place = bisect_right(self._names, lane) - 1
        if place >= 0 and self._names[place] == lane:
            del self._names[place]


class Lanes:
    def __init__(
        self,
        repository: RunRepository,
        admission: Admission,
        is_stopping: Callable[[], bool],
        *,
        isolation_slots: IsolationSlots | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Without `isolation_slots` suspects are left to other workers."""
        self._isolation_slots = isolation_slots or _NoIsolationSlots()
        self._repository = repository
        self._clock = clock
        self._admission = admission
        self._is_stopping = is_stopping
        self._snapshot = LaneSnapshot({}, began=float("-inf"))
        self._interval_s = REFRESH_INTERVAL_S
        self._refresh_lock = asyncio.Lock()
        self._last = ""

    async def claim_next(self, wakeup: str) -> Claim | None:
        """Claims the next run; returns None if nothing is ready.

        An isolated run has reserved a slot, which the caller releases.
        """
        while True:
            claim, admitted = await self._take_turn(wakeup)
            if claim is None or admitted:
                return claim
            if self._is_stopping():
                return None  # the ticket is used up: its run was held or has ended

    async def _take_turn(self, wakeup: str) -> tuple[Claim | None, bool]:
        came_at = self._clock()
        since = came_at - self._interval_s
        for _ in range(MAX_REFRESHES):
            await self._refresh(since)
            if self._snapshot.was_empty and self._snapshot.began_at >= came_at:
                return None, False
            while self._snapshot:
                async with self._admission.exclusive():
                    claim = await self._claim_from_next_lane(wakeup)
                    if claim is not None:
                        return claim, await self._admit(claim)
            since = self._clock()
        log.info("ticket_given_up", extra={"run_id": wakeup, "looks": MAX_REFRESHES})
        return None, False

    async def _admit(self, claim: Claim) -> bool:
        admitted = False
        try:
            admitted = await self._admission.try_admit(claim)
        finally:
            if claim.is_isolated and not admitted:
                self._isolation_slots.release()
        return admitted

    async def _claim_from_next_lane(self, wakeup: str) -> Claim | None:
        snapshot = self._snapshot  # another ticket may replace the snapshot meanwhile
        lane = snapshot.lane_after(self._last)
        if lane is None:
            return None
        self._last = lane
        if lane.startswith(ISOLATED_LANE_PREFIX):
            claim = await self._claim_suspect(lane)
        elif len(snapshot) > 1:
            claim = await self._repository.claim_first(lane)
        else:
            claim = await self._repository.claim_first(lane, preferred=wakeup, urgency=snapshot.urgency_of(lane))
        if claim is None:
            snapshot.remove(lane)
        return claim

    async def _claim_suspect(self, lane: str) -> Claim | None:
        if not self._isolation_slots.reserve():
            return None
        claim = None
        try:
            claim = await self._repository.claim_first(lane)
        finally:
            if claim is None:
                self._isolation_slots.release()
        return claim

    async def _refresh(self, since: float) -> None:
        if self._snapshot.began_at >= since:
            return
        async with self._refresh_lock:
            if self._snapshot.began_at >= since:
                return
            began = self._clock()
            urgency = await self._repository.ready_lanes()
            if not self._isolation_slots.has_room():
                urgency = {lane: rank for lane, rank in urgency.items() if not lane.startswith(ISOLATED_LANE_PREFIX)}
            self._snapshot = LaneSnapshot(urgency, began=began)
            took_s = self._clock() - began
            self._interval_s = min(max(REFRESH_INTERVAL_S, took_s * REFRESH_SHARE), MAX_REFRESH_INTERVAL_S)
