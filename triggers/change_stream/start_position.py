"""Joining: where a stream is read from, so that a trigger that is new to it misses nothing and repeats little.

A stream remembers for which triggers it is read. Its position is the place of those; one that another stream was read
for until now, as an edit may move it, brings that place along; one that was made at run time begins when it was made,
though it took a moment until a watcher knew of it. The stream goes on from the earliest of these places. What the
others have had by then they drop as duplicates.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta

from bson.timestamp import Timestamp

from triggers.change_stream.resume_token_store import SUSPENDED, Gap, StreamPosition, StreamRecord, StreamStore
from triggers.change_stream.stream_plan import StreamPlan, stream_database
from triggers.change_stream.stream_source import PositionUnusableError, StreamSource

# A trigger that is older and of which no stream knows anything, as after somebody removed them all, begins now: runs of
# what it has had may be gone already, and would be started again.
RECENTLY_CREATED = timedelta(hours=1)

Positions = Mapping[str, StreamPosition]


class StreamLeaseLostError(Exception):
    """Another watcher reads the stream now, or an operator has set it somewhere else."""


class StartPosition:
    def __init__(self, source: StreamSource, store: StreamStore) -> None:
        self._source = source
        self._store = store

    async def resolve(self, plan: StreamPlan, record: StreamRecord) -> StreamPosition:
        """Where to read from, written down before anything is read."""
        ids = frozenset(each.id for each in plan.triggers)
        known = ids if record.triggers is None else ids & record.triggers
        gaps: list[Gap] = []
        places: Positions = dict.fromkeys(known, record.position)
        if known != ids:
            places = {
                **await self._positions_from_other_streams(plan, ids - known, gaps),
                **_left_positions(record, ids - known),
                **places,
            }
        begin = min(_candidate_starts(plan, places), key=_earliest_sort_key, default=None)
        if begin is None:
            begin = StreamPosition(None, await self._source.current_time())
        elif begin != record.position:
            begin = await self._reachable_position(begin, record if known else None, gaps)
        if begin == record.position and ids == record.triggers:
            return begin
        if not await self._store.join(record, ids, position=begin, gaps=gaps):
            raise StreamLeaseLostError
        return begin

    async def _positions_from_other_streams(self, plan: StreamPlan, ids: frozenset[str], gaps: list[Gap]) -> Positions:
        places: dict[str, StreamPosition] = {}
        for other in await self._store.find_others(ids, except_stream=plan.id):
            moving = ids & (other.triggers or frozenset())
            if stream_database(other.id) != plan.database:
                continue
            places |= _left_positions(other, ids)
            if other.state != SUSPENDED:
                places |= dict.fromkeys(moving, other.position)
            elif moving:  # what it lost is lost; those that are read here go on
                gaps.append(Gap(other.saved_at, datetime.now(UTC), "history_lost"))
        return places

    async def _reachable_position(
        self, start: StreamPosition, record: StreamRecord | None, gaps: list[Gap]
    ) -> StreamPosition:
        """By its time alone: another stream's token may be that of an event that is not to be seen here."""
        if start.reached_time is None:
            return start if record is None else record.position
        try:
            await self._source.check_reachable(start.reached_time)
        except PositionUnusableError:
            gaps.append(Gap(start.reached_time.as_datetime(), datetime.now(UTC), "history_lost"))
            return StreamPosition(None, await self._source.current_time()) if record is None else record.position
        return StreamPosition(None, start.reached_time)


def _left_positions(record: StreamRecord, ids: frozenset[str]) -> Positions:
    return {left.trigger: StreamPosition(None, left.reached) for left in record.left if left.trigger in ids}


def _candidate_starts(plan: StreamPlan, positions: Positions) -> Iterator[StreamPosition]:
    now = datetime.now(UTC)
    for trigger in plan.triggers:
        place, since = positions.get(trigger.id), plan.since.get(trigger.id)
        made = None if since is None else Timestamp(min(since, now), 0)
        if place is None:
            if made is not None and now - made.as_datetime() < RECENTLY_CREATED:
                yield StreamPosition(None, made)
        elif made is not None and place.reached_time is not None and place.reached_time < made:
            yield StreamPosition(None, made)  # what happened before it was made is none of its business
        else:
            yield place


def _earliest_sort_key(position: StreamPosition) -> tuple[bool, Timestamp]:
    """One of which nobody can tell comes first: it is that of others, and theirs to lose."""
    return position.reached_time is not None, position.reached_time or Timestamp(0, 0)
