"""Lanes: whose run is next. Every app has a lane of its own, and they take turns.

A wake-up is a ticket to start one run, and does not say which: Redis keeps them in the order in which they came, so
that an app which sends ten thousand runs would stand in front of everybody else's one. Whoever holds a ticket takes
the first run of the next lane instead. There are as many tickets as ready runs, so each is claimed in the end.

1. Which lanes there are is asked of the store at most every `LOOK_EVERY_S`: one seek in the index for each app that
   waits, however long its backlog is. With so many apps that this takes long, it is asked more rarely.
2. The next lane is the one after the last, in order of names. Nothing is awaited in between, so runs that are claimed
   side by side in this process come from different apps.
3. A lane that turns out to be empty is forgotten until the next look. A ticket is thrown away when a look that began
   after it came sees no lane at all. That one lane after the other was found empty is not enough: meanwhile somebody
   may have taken the run that came with this ticket, and left this ticket the one that came with theirs.
4. A run over a cap is held, and the ticket goes on with the next lane, as if it came anew: another run may have been
   let go in the place of this one.
5. Suspects of killing their workers have lanes of their own, one for each app, which take turns with the others. They
   are seen only while this worker has a place for a process that serves one (`workers.process.isolated_runs`).
"""

import asyncio
import logging
import time
from bisect import bisect_right
from collections.abc import Callable, Mapping
from typing import Protocol

from workers.admission.run_admission import Admission
from workers.store.repository import RunRepository
from workers.store.run import ISOLATED_LANE_PREFIX, Claim

REFRESH_INTERVAL_S = 0.03
REFRESH_SHARE = 10  # of the time at most one in so many goes into looks
MAX_REFRESH_INTERVAL_S = 1.0  # one look that an election or a tool has held up says nothing about the next
# Others may be faster each time, but this often only where runs stand in a lane that nobody may claim.
MAX_REFRESHES = 20

log = logging.getLogger(__name__)


class IsolationSlots(Protocol):
    """For runs that are worked on alone, each in a process of its own."""

    def has_room(self) -> bool:
        """Whether one more may begin now."""

    def reserve(self) -> bool:
        """Takes a place, if there is one."""

    def release(self) -> None:
        """Gives a reserved place back."""


class _NoIsolationSlots:
    def has_room(self) -> bool:
        return False

    def reserve(self) -> bool:
        return False

    def release(self) -> None:
        raise RuntimeError("no place was reserved")


class LaneSnapshot:
    """The lanes in order of names, and how urgent the first run of each is."""

    def __init__(self, urgency: Mapping[str, int], *, began: float) -> None:
        self.began_at = began
        self.was_empty = not urgency
        self._urgency = urgency
        self._names = sorted(urgency)

    def __len__(self) -> int:
        return len(self._names)

    def lane_after(self, last: str) -> str | None:
        """The next one round; None when all are empty."""
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
        """Without places for runs alone, suspects are left to other workers."""
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
        """A run to work on, ours from now on; None when nothing is ready. One that is to be worked on alone has a
        place for that, which the caller releases."""
        while True:
            claim, admitted = await self._take_turn(wakeup)
            if claim is None or admitted:
                return claim
            if self._is_stopping():
                return None  # this ticket has dealt with one run, though not by starting it

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
        look = self._snapshot  # another ticket may look meanwhile: what is found empty now says nothing about that
        lane = look.lane_after(self._last)
        if lane is None:
            return None
        self._last = lane
        if lane.startswith(ISOLATED_LANE_PREFIX):
            claim = await self._claim_suspect(lane)
        elif len(look) > 1:
            claim = await self._repository.claim_first(lane)
        else:
            claim = await self._repository.claim_first(lane, preferred=wakeup, urgency=look.urgency_of(lane))
        if claim is None:
            look.remove(lane)
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
                urgency = {lane: each for lane, each in urgency.items() if not lane.startswith(ISOLATED_LANE_PREFIX)}
            self._snapshot = LaneSnapshot(urgency, began=began)
            took_s = self._clock() - began
            self._interval_s = min(max(REFRESH_INTERVAL_S, took_s * REFRESH_SHARE), MAX_REFRESH_INTERVAL_S)
