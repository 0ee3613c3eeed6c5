"""The release policy: it picks the held runs that start next when their limit has room.

1. Runs that wait for an app, or for its rate, are released by priority and then age. For a workflow, apps take turns.
2. A run may exceed a second limit as well. The first limit does not release it while the second is full: its worker
   would hold it there and pass the room to the next one, until the whole backlog had moved there and back.
3. Instead, one such run of each app and workflow is moved to the second limit and waits there. Otherwise it would never
   start if the second limit were always taken by runs that wait for that limit alone.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from accounting.infra.aio import gather_all
from workers.admission.limits.limit import UNLIMITED, Released
from workers.store.held_runs import Head, HeldRuns
from workers.store.limit_name import LimitKind, LimitName

T = TypeVar("T", bound=Hashable)

MAX_TRIES = 5
MAX_APPS = 100  # an app at its own cap costs two counts; a scheduler continues after these apps


@dataclass(slots=True)
class _LimitScan:
    """The results of one scan.

    Many runs may have the same second limit, so its room is read once.
    """

    limit: LimitName
    rooms: dict[LimitName, int] = field(default_factory=dict)
    skipped: list[tuple[Head, LimitName]] = field(default_factory=list)


_Choose = Callable[[_LimitScan, int, str], Awaitable[tuple[list[str], str]]]


class ReleasePolicy:
    def __init__(
        self,
        held: HeldRuns,
        *,
        has_room: Callable[[LimitName], Awaitable[int]],
        limits_of: Callable[[Head], Sequence[LimitName]],
        max_apps: int = MAX_APPS,
    ) -> None:
        """`limits_of` returns the limits that a held run counts against when it starts."""
        self._held = held
        self._has_room = has_room
        self._limits_of = limits_of
        self._max_apps = max_apps

    async def release_most_urgent(self, limit: LimitName, *, count: int, after: str) -> Released:
        return await self._release(limit, self._pick_most_urgent, count, after)

    async def release_round_robin(self, limit: LimitName, *, count: int, after: str) -> Released:
        return await self._release(limit, self._pick_round_robin, count, after)

    async def _release(self, limit: LimitName, choose: _Choose, count: int, after: str) -> Released:
        for _ in range(MAX_TRIES):
            scan = _LimitScan(limit)
            chosen, last = await choose(scan, count, after)
            for head, full in scan.skipped:
                await self._held.move(head, limit, to=full)
            released = await self._held.release(limit, chosen) if chosen else 0
            if released or not chosen:
                return Released(chosen, last, released)
            count = min(count, await self._has_room(limit))  # another process has released these runs
        return Released((), after)

    async def has_higher_priority_waiter(self, run: Head, limit: LimitName) -> bool:
        """Returns whether a more urgent run waits for this rate.

        A run that waits for its workflow as well does not count.
        """
        for head in await self._held.list_heads(limit):
            same = head.workflow == run.workflow
            if head.urgency < run.urgency and (
                same or await self._has_room(LimitName(LimitKind.WORKFLOW, head.workflow))
            ):
                return True
        return False

    async def _room_in_other_limits(self, scan: _LimitScan, head: Head) -> int:
        """Returns how many such runs fit in their other limits."""
        room = UNLIMITED
        for limit in self._other_limits(scan.limit, head):
            if limit not in scan.rooms:
                scan.rooms[limit] = await self._has_room(limit)
            is_rate = limit.kind is LimitKind.RATE
            free = 0 if is_rate and await self.has_higher_priority_waiter(head, limit) else scan.rooms[limit]
            if not free and not is_rate:
                scan.skipped.append((head, limit))
            room = min(room, free)
        return room

    def _other_limits(self, limit: LimitName, head: Head) -> list[LimitName]:
        return [name for name in self._limits_of(head) if name != limit]

    async def _pick_most_urgent(self, scan: _LimitScan, count: int, after: str) -> tuple[list[str], str]:
        rooms = {
            head: min(await self._room_in_other_limits(scan, head), count)
            for head in await self._held.list_heads(scan.limit)
        }
        found = await gather_all(self._waiting_runs(scan.limit, head, room) for head, room in rooms.items() if room)
        urgent_first = sorted((run for runs in found for run in runs), key=lambda run: run.urgency)
        return [run.run_id for run in self._fit_shared_room(scan, urgent_first)[:count]], after

    def _fit_shared_room(self, scan: _LimitScan, runs: Iterable[Head]) -> list[Head]:
        """Keeps the runs that fit together in the limits that they share."""
        chosen, left = [], dict(scan.rooms)
        for run in runs:
            others = self._other_limits(scan.limit, run)
            if all(left.get(name, UNLIMITED) > 0 for name in others):
                chosen.append(run)
                left |= {name: left.get(name, UNLIMITED) - 1 for name in others}
        return chosen

    async def _pick_round_robin(self, scan: _LimitScan, count: int, after: str) -> tuple[list[str], str]:
        rooms: dict[Head, int] = {}
        scanned = 0
        async for head in self._heads_in_turn(scan.limit, count, after):
            room = await self._room_in_other_limits(scan, head)
            rooms |= {head: room} if room else {}
            scanned, after = scanned + 1, head.app_id
            if len(rooms) == count or scanned == self._max_apps:
                break
        shares, last = deal(rooms, count)
        found = await gather_all(self._waiting_runs(scan.limit, head, share) for head, share in shares.items())
        return [run.run_id for runs in found for run in runs], last.app_id if last else after

    async def _heads_in_turn(self, limit: LimitName, count: int, after: str) -> AsyncIterator[Head]:
        """Yields the waiting apps in turn.

        For a single run, apps are read one by one, since the first one usually fits.
        """
        if count > 1:
            heads = {head.app_id: head for head in await self._held.list_heads(limit)}
            for app_id in rotate_after(heads, after):
                yield heads[app_id]
            return
        for first, last in ((after, None), ("", after)):
            head = await self._held.next_app(limit, after=first, up_to=last)
            while head is not None:
                yield head
                head = await self._held.next_app(limit, after=head.app_id, up_to=last)

    async def _waiting_runs(self, limit: LimitName, head: Head, count: int) -> Sequence[Head]:
        return [head] if count == 1 else await self._held.next_waiting(limit, head, count)


def deal(rooms: Mapping[T, int], count: int) -> tuple[dict[T, int], T | None]:
    """Distributes `count` one by one, in order, among the takers that have room.

    Returns the shares and the last taker.
    """
    shares, last = dict.fromkeys(rooms, 0), None
    while count and (takers := [taker for taker, room in rooms.items() if shares[taker] < room][:count]):
        for taker in takers:
            shares[taker] += 1
        count, last = count - len(takers), takers[-1]
    return shares, last


def rotate_after(names: Iterable[str], after: str) -> list[str]:
    """Sorts the names, beginning with the first one after `after`."""
    return sorted(names, key=lambda name: (name <= after, name))
