"""Letting go: which of the runs that a limit holds go on, when it has room.

1. What waits for an app, or for its rate, goes by priority and then age. What waits for a workflow goes round the apps.
2. A run may be over a second limit as well. It is not let go for the first while the second is full: its worker would
   hold it there, and leave the room to the next one, until the whole backlog had moved, and moved back again.
3. Then one such run of each app and workflow is moved over to the second limit, to wait there in its turn. Else it
   would never go where the second limit is always taken by those that wait for that one alone.
"""

from collections.abc import AsyncIterator, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from accounting.infra.aio import gather_all
from workers.fairness.caps import Caps
from workers.fairness.held import Head, HeldRuns, is_of_workflow
from workers.fairness.rates import Rates

T = TypeVar("T", bound=Hashable)

ANY_NUMBER = 500  # where there is no cap: at most so many at once
TRIES = 5
MOST_APPS = 100  # each that is at its own cap costs two counts; a scheduler goes on behind them


@dataclass(slots=True)
class _Look:
    """What one look has found: room is asked for once, though many runs may have the same second limit."""

    limit: str
    rooms: dict[str, int] = field(default_factory=dict)
    passed_over: list[tuple[Head, str]] = field(default_factory=list)


class LettingGo:
    def __init__(self, caps: Caps, held: HeldRuns, rates: Rates) -> None:
        self._caps = caps
        self._held = held
        self._rates = rates

    async def room(self, limit: str) -> int:
        """How many more may run, or start."""
        kind, _, name = limit.partition(":")
        if kind == "rate":
            return await self._starts(name)
        most = self._caps.of_app(name) if kind == "app" else self._caps.of_workflow(name)
        return ANY_NUMBER if most is None else max(most - await self._held.taken(limit, up_to=most), 0)

    async def let_go(self, limit: str, *, most: int, after: str) -> tuple[Sequence[str], str]:
        """At most so many; and whose turn was last, where apps take turns: first comes the one after `after`."""
        for _ in range(TRIES):
            look = _Look(limit)
            if is_of_workflow(limit):
                chosen, last = await self._round_the_apps(look, most, after)
            else:
                chosen, last = await self._most_urgent(look, most), after
            for head, full in look.passed_over:
                await self._held.move(head, limit, to=full)
            if not chosen or await self._held.let_go(limit, chosen):
                return chosen, last
            most = min(most, await self.room(limit))  # others let them go
        return (), after

    async def somebody_goes_before(self, run: Head, limit: str) -> bool:
        """Who waits for this rate, is more urgent, and does not wait for its workflow as well."""
        for head in await self._held.heads(limit):
            same = head.workflow == run.workflow
            if head.urgency < run.urgency and (same or await self.room(f"workflow:{head.workflow}")):
                return True
        return False

    async def _starts(self, app_id: str) -> int:
        rate = self._caps.rate_of(app_id)
        if rate is None:
            return ANY_NUMBER
        starts = (await self._rates.free({app_id: rate}))[app_id]
        return max(starts - await self._held.on_its_way(f"rate:{app_id}", up_to=starts), 0) if starts else 0

    async def _room_beside(self, look: _Look, head: Head) -> int:
        """What the other limits of such runs have room for."""
        room = ANY_NUMBER
        for name in self._other_limits(look.limit, head):
            if name not in look.rooms:
                look.rooms[name] = await self.room(name)
            is_rate = name.startswith("rate:")
            free = 0 if is_rate and await self.somebody_goes_before(head, name) else look.rooms[name]
            if not free and not is_rate:
                look.passed_over.append((head, name))
            room = min(room, free)
        return room

    def _other_limits(self, limit: str, head: Head) -> list[str]:
        names = [each.name for each in self._caps.limits_of(head.app_id, head.workflow)]
        if self._caps.rate_of(head.app_id) and not head.has_started:
            names.append(f"rate:{head.app_id}")
        return [name for name in names if name != limit]

    async def _most_urgent(self, look: _Look, most: int) -> list[str]:
        rooms = {head: min(await self._room_beside(look, head), most) for head in await self._held.heads(look.limit)}
        found = await gather_all(self._of(look.limit, head, room) for head, room in rooms.items() if room)
        urgent_first = sorted((run for runs in found for run in runs), key=lambda run: run.urgency)
        return [run.run_id for run in self._within(look, urgent_first)[:most]]

    def _within(self, look: _Look, runs: Iterable[Head]) -> list[Head]:
        """All of them together, of an app: what its other limits have room for they share."""
        chosen, left = [], dict(look.rooms)
        for run in runs:
            others = self._other_limits(look.limit, run)
            if all(left.get(name, ANY_NUMBER) > 0 for name in others):
                chosen.append(run)
                left |= {name: left.get(name, ANY_NUMBER) - 1 for name in others}
        return chosen

    async def _round_the_apps(self, look: _Look, most: int, after: str) -> tuple[list[str], str]:
        rooms: dict[Head, int] = {}
        looked_at = 0
        async for head in self._in_turn(look.limit, most, after):
            room = await self._room_beside(look, head)
            rooms |= {head: room} if room else {}
            looked_at, after = looked_at + 1, head.app_id
            if len(rooms) == most or looked_at == MOST_APPS:
                break
        shares, last = dealt(rooms, most)
        found = await gather_all(self._of(look.limit, head, share) for head, share in shares.items())
        return [run.run_id for runs in found for run in runs], last.app_id if last else after

    async def _in_turn(self, limit: str, most: int, after: str) -> AsyncIterator[Head]:
        """For one run not all apps that wait are read: mostly the first one goes."""
        if most > 1:
            heads = {head.app_id: head for head in await self._held.heads(limit)}
            for app_id in round_from(heads, after):
                yield heads[app_id]
            return
        for first, last in ((after, None), ("", after)):
            head = await self._held.next_app(limit, after=first, up_to=last)
            while head is not None:
                yield head
                head = await self._held.next_app(limit, after=head.app_id, up_to=last)

    async def _of(self, limit: str, head: Head, count: int) -> Sequence[Head]:
        return [head] if count == 1 else await self._held.behind(limit, head, count)


def dealt(rooms: Mapping[T, int], most: int) -> tuple[dict[T, int], T | None]:
    """`most` dealt out one by one to those that have room, in their order; and who got the last."""
    shares, last = dict.fromkeys(rooms, 0), None
    while most and (takers := [each for each, room in rooms.items() if shares[each] < room][:most]):
        for each in takers:
            shares[each] += 1
        most, last = most - len(takers), takers[-1]
    return shares, last


def round_from(names: Iterable[str], after: str) -> list[str]:
    """In order and round: those after that one first."""
    return sorted(names, key=lambda name: (name <= after, name))
