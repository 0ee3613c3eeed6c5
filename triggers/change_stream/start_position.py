"""Start positions: where a stream is read from when its triggers change.

A stream stores the triggers that it is read for, and its position is theirs. A trigger that moves here from another
stream, after an edit, brings its position along. A trigger created at run time begins at its creation, although a
watcher reads it a moment later. The stream starts at the earliest of these positions; the other triggers drop the
events that they have had as duplicates.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta

from bson.timestamp import Timestamp

from triggers.change_stream.resume_token_store import SUSPENDED, Gap, StreamPosition, StreamRecord, StreamStore
from triggers.change_stream.stream_plan import StreamPlan, stream_database
from triggers.change_stream.stream_source import PositionUnusableError, StreamSource

# An older trigger without any stream, as after their documents were removed, begins now: the runs of its earlier events
# may be gone, and would start again.
RECENTLY_CREATED = timedelta(hours=1)

Positions = Mapping[str, StreamPosition]


class StreamLeaseLostError(Exception):
    """Another watcher reads the stream now, or an operator has moved its position."""


class StartPosition:
    def __init__(self, source: StreamSource, store: StreamStore) -> None:
        self._source = source
        self._store = store

    async def resolve(self, plan: StreamPlan, record: StreamRecord) -> StreamPosition:
        """Returns where to read from, and stores it before anything is read."""
        ids = frozenset(trigger.id for trigger in plan.triggers)
        known = ids if record.triggers is None else ids & record.triggers
        gaps: list[Gap] = []
        positions: Positions = dict.fromkeys(known, record.position)
        if known != ids:
            positions = {
                **await self._positions_from_other_streams(plan, ids - known, gaps),
                **_left_positions(record, ids - known),
                **positions,
            }
        start = min(_candidate_starts(plan, positions), key=_earliest_sort_key, default=None)
        if start is None:
            start = StreamPosition(None, await self._source.current_time())
        elif start != record.position:
            start = await self._reachable_position(start, record if known else None, gaps)
        if start == record.position and ids == record.triggers:
            return start
        if not await self._store.join(record, ids, position=start, gaps=gaps):
            raise StreamLeaseLostError
        return start

    async def _positions_from_other_streams(self, plan: StreamPlan, ids: frozenset[str], gaps: list[Gap]) -> Positions:
        positions: dict[str, StreamPosition] = {}
        for other in await self._store.find_others(ids, except_stream=plan.id):
            moving = ids & (other.triggers or frozenset())
            if stream_database(other.id) != plan.database:
                continue
            positions |= _left_positions(other, ids)
            if other.state != SUSPENDED:
                positions |= dict.fromkeys(moving, other.position)
            elif moving:  # a suspended stream has lost events; the triggers that were here before go on
                gaps.append(Gap(other.saved_at, datetime.now(UTC), "history_lost"))
        return positions

    async def _reachable_position(
        self, start: StreamPosition, record: StreamRecord | None, gaps: list[Gap]
    ) -> StreamPosition:
        """Drops the token: another stream's event may be filtered out here."""
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
        position, since = positions.get(trigger.id), plan.since.get(trigger.id)
        created = None if since is None else Timestamp(min(since, now), 0)
        if position is None:
            if created is not None and now - created.as_datetime() < RECENTLY_CREATED:
                yield StreamPosition(None, created)
        elif created is not None and position.reached_time is not None and position.reached_time < created:
            yield StreamPosition(None, created)  # a trigger ignores events from before its creation
        else:
            yield position


def _earliest_sort_key(position: StreamPosition) -> tuple[bool, Timestamp]:
    """Sorts by time.

    A position with an unknown time comes first: it belongs to the stream's own triggers.
    """
    return position.reached_time is not None, position.reached_time or Timestamp(0, 0)
