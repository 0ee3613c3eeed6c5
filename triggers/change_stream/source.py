"""The source: opens a change stream at a position, and names what can go wrong with it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from bson.codec_options import CodecOptions, DatetimeConversion
from pymongo.asynchronous.change_stream import AsyncChangeStream
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.asynchronous.mongo_client import AsyncMongoClient
from pymongo.errors import OperationFailure

from triggers.change_stream.store import Position
from triggers.change_stream.watches import Watch, match_stage, needs_lookup

Event = dict[str, Any]
Stream = AsyncChangeStream[Event]

MAX_AWAIT_MS = 500

# 286 the oplog no longer reaches back; 280, 260 the server cannot go on from this token; the others: the token
# is no token, as after a restore or a hand-made edit.
_TOKEN_CODES = frozenset({286, 280, 260, 9, 15, 40647, 40649, 50811})
_TOO_LARGE_CODE = 10334
_NON_RESUMABLE = "NonResumableChangeStreamError"

# A document that Python cannot show (a date in the year 20000, broken UTF-8) must not stop the stream.
_LENIENT: CodecOptions[Event] = CodecOptions(
    tz_aware=True, datetime_conversion=DatetimeConversion.DATETIME_AUTO, unicode_decode_error_handler="replace"
)


class PositionUnusableError(Exception):
    """The server cannot go on from where we were; what happened since may be lost."""

    def __init__(self, code: int | None) -> None:
        super().__init__(f"code {code}")
        self.code = code


class EventTooLargeError(Exception):
    """An event ahead is beyond the 16 MB that a message can carry: it will never be delivered."""


class Source:
    def __init__(self, client: AsyncMongoClient[Event], database: str) -> None:
        self._database: AsyncDatabase[Event] = client.get_database(database, codec_options=_LENIENT)

    async def open(self, watches: Sequence[Watch], position: Position, *, one_by_one: bool = False) -> Stream:
        with _named_errors(position):
            return await self._database.watch(
                [match_stage(watches)],
                full_document="updateLookup" if needs_lookup(watches) else None,
                max_await_time_ms=MAX_AWAIT_MS,
                batch_size=1 if one_by_one else None,
                **_start(position),
            )

    async def next_without_content(self, watches: Sequence[Watch], position: Position) -> Event | None:
        """What is too large to be delivered still has a name and a place."""
        names = dict.fromkeys(("operationType", "clusterTime", "ns"), 1)
        pipeline = [match_stage(watches), {"$project": names}]
        with _named_errors(position):
            async with await self._database.watch(
                pipeline, max_await_time_ms=MAX_AWAIT_MS, batch_size=1, **_start(position)
            ) as stream:
                return await stream.try_next()


async def next_event(stream: Stream, position: Position) -> Event | None:
    """None when there was none for a moment."""
    with _named_errors(position):
        return await stream.try_next()


def _start(position: Position) -> Mapping[str, Any]:
    if position.token is not None:
        return {"start_after": position.token}  # like resume_after, and also after an invalidate
    if position.time is not None:
        return {"start_at_operation_time": position.time}
    return {}


@contextmanager
def _named_errors(position: Position) -> Iterator[None]:
    try:
        yield
    except OperationFailure as error:
        if error.code == _TOO_LARGE_CODE:
            raise EventTooLargeError from error
        if position != Position() and (error.code in _TOKEN_CODES or error.has_error_label(_NON_RESUMABLE)):
            raise PositionUnusableError(error.code) from error
        raise
