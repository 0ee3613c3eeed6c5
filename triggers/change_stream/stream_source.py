"""The source: opens a change stream at a position, and names what can go wrong with it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from bson.codec_options import CodecOptions, DatetimeConversion
from bson.timestamp import Timestamp
from pymongo.asynchronous.change_stream import AsyncChangeStream
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.asynchronous.mongo_client import AsyncMongoClient
from pymongo.errors import OperationFailure

from triggers.change_stream.resume_token_store import StreamPosition
from triggers.change_stream.stream_plan import StreamPlan

Event = dict[str, Any]
Stream = AsyncChangeStream[Event]

MAX_AWAIT_MS = 500
MAX_READS_FOR_ONE_EVENT = 20

# 286 the oplog no longer reaches back; 280, 260 the server cannot go on from this token; the others: the token
# is no token, as after a restore or a hand-made edit.
_TOKEN_CODES = frozenset({286, 280, 260, 9, 15, 40647, 40649, 50811})
_TOO_LARGE_CODE = 10334
_NOT_AUTHORIZED_CODE = 13
_NON_RESUMABLE = "NonResumableChangeStreamError"
_TRANSIENT_LABELS = ("ResumableChangeStreamError", "RetryableWriteError", "TransientTransactionError")
# Of a server that is stopping or busy: it is asked again.
_TRANSIENT_CODES = frozenset({6, 7, 43, 50, 63, 89, 91, 133, 150, 189, 202, 234, 237, 262, 9001, 10107, 11600, 11602})

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
    """An event ahead is beyond the 16 MB that a message can carry: it will never be delivered as it is asked for."""


class StreamRefusedError(Exception):
    """The server does not do what the stream's triggers ask for; the text has its words."""


class StreamSource:
    def __init__(self, client: AsyncMongoClient[Event], database: str, *, max_await_ms: int = MAX_AWAIT_MS) -> None:
        self._max_await_ms = max_await_ms
        self._database: AsyncDatabase[Event] = client.get_database(database, codec_options=_LENIENT)

    async def open(self, plan: StreamPlan, position: StreamPosition, *, one_by_one: bool = False) -> Stream:
        try:
            with translate_errors(plan, position):
                return await self._database.watch(
                    list(plan.stages),
                    full_document=plan.full_document,
                    full_document_before_change=plan.pre_image,
                    max_await_time_ms=self._max_await_ms,
                    batch_size=1 if one_by_one else None,
                    **_start_option(position),
                )
        except PositionUnusableError:
            # The same codes are said of a pipeline: without a position only that is left to be wrong.
            async with await self.open(plan, StreamPosition()):
                raise

    async def read_next_without_content(self, plan: StreamPlan, position: StreamPosition) -> Event | None:
        """What is too large to be delivered still has a name and a place."""
        names = {"$project": dict.fromkeys(("operationType", "clusterTime", "wallTime", "ns", "documentKey"), 1)}
        with translate_errors(plan, position):
            async with await self._database.watch(
                [*plan.stages, names],
                full_document=plan.full_document,
                full_document_before_change=plan.pre_image,
                max_await_time_ms=self._max_await_ms,
                batch_size=1,
                **_start_option(position),
            ) as stream:
                return await _read_first(stream)

    async def read_event(self, plan: StreamPlan, header: Event, *, with_documents: bool = True) -> Event | None:
        """This event, whatever comes with it in a batch. Without documents it is by itself: what changed, and nothing
        that was looked up or kept beside it. None when it does not come; EventTooLargeError when it cannot."""
        # By its time: the filter hides the event of a token from the server, which looks for it.
        position = StreamPosition(None, header["clusterTime"])
        with translate_errors(plan, position):
            async with await self._database.watch(
                [*plan.stages, {"$match": {"_id": header["_id"]}}],
                full_document=plan.full_document if with_documents else None,
                full_document_before_change=plan.pre_image if with_documents else None,
                max_await_time_ms=self._max_await_ms,
                **_start_option(position),
            ) as stream:
                return await _read_first(stream)

    async def current_time(self) -> Timestamp:
        """A place behind what has been written, and before what comes: streams begin at a time, not behind it."""
        newest: Timestamp = (await self._database.command("ping"))["operationTime"]
        return Timestamp(newest.time, newest.inc + 1)

    async def check_reachable(self, time: Timestamp) -> None:
        """PositionUnusableError when the oplog does not reach back so far."""
        nothing = [{"$match": {"operationType": "none"}}]
        with translate_errors(None, StreamPosition(None, time)):
            async with await self._database.watch(
                nothing, start_at_operation_time=time, max_await_time_ms=self._max_await_ms
            ) as stream:
                await stream.try_next()


async def read_next_event(stream: Stream, plan: StreamPlan, position: StreamPosition) -> Event | None:
    """None when there was none for a moment."""
    try:
        return await stream.try_next()
    except OperationFailure:
        with translate_errors(plan, position):
            raise


async def _read_first(stream: Stream) -> Event | None:
    for _ in range(MAX_READS_FOR_ONE_EVENT):
        found = await stream.try_next()
        if found is not None:
            return found
    return None


def _start_option(position: StreamPosition) -> Mapping[str, Any]:
    if position.token is not None:
        return {"start_after": position.token}  # like resume_after, and also after an invalidate
    if position.time is not None:
        return {"start_at_operation_time": position.time}
    return {}


@contextmanager
def translate_errors(plan: StreamPlan | None, position: StreamPosition) -> Iterator[None]:
    try:
        yield
    except OperationFailure as error:
        if error.code == _TOO_LARGE_CODE:
            raise EventTooLargeError from error
        if position != StreamPosition() and (error.code in _TOKEN_CODES or error.has_error_label(_NON_RESUMABLE)):
            raise PositionUnusableError(error.code) from error
        if plan is not None and _is_refusal(plan, error):
            raise StreamRefusedError(_refusal_text(error)) from error
        raise


def _is_refusal(plan: StreamPlan, error: OperationFailure) -> bool:
    if error.code == _NOT_AUTHORIZED_CODE:
        return True
    passes = error.code in _TRANSIENT_CODES or any(error.has_error_label(label) for label in _TRANSIENT_LABELS)
    asks_for_more = plan.own_pipeline or plan.pre_image is not None or plan.full_document == "whenAvailable"
    return asks_for_more and not passes


def _refusal_text(error: OperationFailure) -> str:
    said = (error.details or {}).get("errmsg") or str(error)
    return f"MongoDB refuses it: {str(said)[:300]} (code {error.code})"
