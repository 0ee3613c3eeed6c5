"""Letting go: which of the runs that a limit holds go on, when it has room.

1. What waits for an app, or for its rate, goes by priority and then age. What waits for a workflow goes round the apps.
2. A run may be over a second limit as well. It is not let go for the first while the second is full: its worker would
   hold it there, and the room would be left to the next one, until the whole backlog had moved, and moved back again.
   Should then that second limit get room by another app's run, a scheduler lets it go within a second.
"""

from collections.abc import Iterable, Mapping, Sequence

from workers.fairness.caps import Caps
from workers.fairness.held import Head, HeldRuns, is_of_workflow
from workers.fairness.rates import Rates
from workers.together import together

ANY_NUMBER = 500  # where there is no cap: at most so many at once
TRIES = 5


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
            heads = await self._held.heads(limit)
            if is_of_workflow(limit):
                chosen, last = await self._round_the_apps(limit, heads, most, after)
            else:
                chosen, last = await self._most_urgent(limit, heads, most), after
            if not chosen or await self._held.let_go(limit, chosen):
                return chosen, last
        return (), after  # others let them all go, time and again

    async def _starts(self, app_id: str) -> int:
        rate = self._caps.rate_of(app_id)
        if rate is None:
            return ANY_NUMBER
        starts = (await self._rates.free({app_id: rate}))[app_id]
        return max(starts - await self._held.on_its_way(f"rate:{app_id}", up_to=starts), 0) if starts else 0

    async def _room_beside(self, limit: str, head: Head) -> int:
        """What the other limits of such runs have room for."""
        names = [each.name for each in self._caps.limits_of(head.app_id, head.workflow)]
        rate = [f"rate:{head.app_id}"] if self._caps.rate_of(head.app_id) else []
        return min([await self.room(name) for name in (*names, *rate) if name != limit], default=ANY_NUMBER)

    async def _most_urgent(self, limit: str, heads: Iterable[Head], most: int) -> list[str]:
        rooms = {head: min(await self._room_beside(limit, head), most) for head in heads}
        found = await together(self._of(limit, head, room) for head, room in rooms.items() if room)
        urgent_first = sorted((run for runs in found for run in runs), key=lambda run: run.urgency)
        return [run.run_id for run in urgent_first[:most]]

    async def _round_the_apps(self, limit: str, heads: Iterable[Head], most: int, after: str) -> tuple[list[str], str]:
        by_app = {head.app_id: head for head in heads}
        rooms: dict[str, int] = {}
        for app_id in round_from(by_app, after):
            if len(rooms) == most:
                break
            room = await self._room_beside(limit, by_app[app_id])
            rooms |= {app_id: room} if room else {}
        shares, last = dealt(rooms, most)
        found = await together(self._of(limit, by_app[app_id], share) for app_id, share in shares.items())
        return [run.run_id for runs in found for run in runs], last or after

    async def _of(self, limit: str, head: Head, count: int) -> Sequence[Head]:
        return [head] if count == 1 else await self._held.behind(limit, head, count)


def dealt(rooms: Mapping[str, int], most: int) -> tuple[dict[str, int], str | None]:
    """`most` dealt out one by one to those that have room, in their order; and who got the last."""
    shares, last = dict.fromkeys(rooms, 0), None
    while most and (takers := [name for name, room in rooms.items() if shares[name] < room][:most]):
        for name in takers:
            shares[name] += 1
        most, last = most - len(takers), takers[-1]
    return shares, last


def round_from(names: Iterable[str], after: str) -> list[str]:
    """In order and round: those after that one first."""
    return sorted(names, key=lambda name: (name <= after, name))
