"""Joining: where a stream is read from, so that a trigger that is new to it misses nothing and repeats little.

A stream remembers for which triggers it is read. Its position is the place of those; one that another stream was read
for until now, as an edit may move it, brings that place along; one that was made at run time begins when it was made,
though it took a moment until a watcher knew of it. The stream goes on from the earliest of these places. What the
others have had by then they drop as duplicates.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta

from bson.timestamp import Timestamp

from triggers.change_stream.plan import StreamPlan
from triggers.change_stream.source import PositionUnusableError, Source
from triggers.change_stream.store import SUSPENDED, Gap, Position, StreamRecord, StreamStore
from triggers.change_stream.stream_ids import database_of

# A trigger that is older and of which no stream knows anything, as after somebody removed them all, begins now: runs of
# what it has had may be gone already, and would be started again.
MADE_JUST_NOW = timedelta(hours=1)

Places = Mapping[str, Position]


class LeaseGoneError(Exception):
    """Another watcher reads the stream now, or an operator has set it somewhere else."""


class Joining:
    def __init__(self, source: Source, store: StreamStore) -> None:
        self._source = source
        self._store = store

    async def start(self, plan: StreamPlan, record: StreamRecord) -> Position:
        """Where to read from, written down before anything is read."""
        ids = frozenset(each.id for each in plan.triggers)
        known = ids if record.triggers is None else ids & record.triggers
        gaps: list[Gap] = []
        places: Places = dict.fromkeys(known, record.position)
        if known != ids:
            places = {**await self._brought_along(plan, ids - known, gaps), **_left(record, ids - known), **places}
        begin = min(_starts(plan, places), key=_earliest_first, default=None)
        if begin is None:
            begin = Position(None, await self._source.now())
        elif begin != record.position:
            begin = await self._reachable(begin, record if known else None, gaps)
        if begin == record.position and ids == record.triggers:
            return begin
        if not await self._store.join(record, ids, position=begin, gaps=gaps):
            raise LeaseGoneError
        return begin

    async def _brought_along(self, plan: StreamPlan, ids: frozenset[str], gaps: list[Gap]) -> Places:
        places: dict[str, Position] = {}
        for other in await self._store.others_of(ids, than=plan.id):
            moving = ids & (other.triggers or frozenset())
            if database_of(other.id) != plan.database:
                continue
            places |= _left(other, ids)
            if other.state != SUSPENDED:
                places |= dict.fromkeys(moving, other.position)
            elif moving:  # what it lost is lost; those that are read here go on
                gaps.append(Gap(other.saved_at, datetime.now(UTC), "history_lost"))
        return places

    async def _reachable(self, begin: Position, record: StreamRecord | None, gaps: list[Gap]) -> Position:
        """By its time alone: another stream's token may be that of an event that is not to be seen here."""
        if begin.reached is None:
            return begin if record is None else record.position
        try:
            await self._source.reaches(begin.reached)
        except PositionUnusableError:
            gaps.append(Gap(begin.reached.as_datetime(), datetime.now(UTC), "history_lost"))
            return Position(None, await self._source.now()) if record is None else record.position
        return Position(None, begin.reached)


def _left(record: StreamRecord, ids: frozenset[str]) -> Places:
    return {left.trigger: Position(None, left.reached) for left in record.left if left.trigger in ids}


def _starts(plan: StreamPlan, places: Places) -> Iterator[Position]:
    now = datetime.now(UTC)
    for trigger in plan.triggers:
        place, since = places.get(trigger.id), plan.since.get(trigger.id)
        made = None if since is None else Timestamp(min(since, now), 0)
        if place is None:
            if made is not None and now - made.as_datetime() < MADE_JUST_NOW:
                yield Position(None, made)
        elif made is not None and place.reached is not None and place.reached < made:
            yield Position(None, made)  # what happened before it was made is none of its business
        else:
            yield place


def _earliest_first(position: Position) -> tuple[bool, Timestamp]:
    """One of which nobody can tell comes first: it is that of others, and theirs to lose."""
    return position.reached is not None, position.reached or Timestamp(0, 0)
