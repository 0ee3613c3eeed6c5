"""The stream source: opens change streams, and translates their errors."""

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

# 286: the oplog no longer reaches back. 280, 260: the server cannot resume from this token. The others: invalid tokens,
# as after a restore or a manual edit.
_TOKEN_CODES = frozenset({286, 280, 260, 9, 15, 40647, 40649, 50811})
_TOO_LARGE_CODE = 10334
_NOT_AUTHORIZED_CODE = 13
_NON_RESUMABLE = "NonResumableChangeStreamError"
_TRANSIENT_LABELS = ("ResumableChangeStreamError", "RetryableWriteError", "TransientTransactionError")
# The codes of a stopping or busy server: these are retried.
_TRANSIENT_CODES = frozenset({6, 7, 43, 50, 63, 89, 91, 133, 150, 189, 202, 234, 237, 262, 9001, 10107, 11600, 11602})

# A document that Python cannot represent (a date in the year 20000, broken UTF-8) must not stop the stream.
_LENIENT: CodecOptions[Event] = CodecOptions(
    tz_aware=True, datetime_conversion=DatetimeConversion.DATETIME_AUTO, unicode_decode_error_handler="replace"
)


class PositionUnusableError(Exception):
    """The server cannot resume from this position. Events since then may be lost."""

    def __init__(self, code: int | None) -> None:
        super().__init__(f"code {code}")
        self.code = code


class EventTooLargeError(Exception):
    """The next event exceeds the 16 MB of a message with these options."""


class StreamRefusedError(Exception):
    """The server refuses the stream's options; the text has its message."""


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
            # A bad pipeline has the same codes: opening without a position tells the two apart.
            async with await self.open(plan, StreamPosition()):
                raise

    async def read_next_without_content(self, plan: StreamPlan, position: StreamPosition) -> Event | None:
        """Reads the next event without documents and changes, which always fits a message."""
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
        """Reads one event alone, with or without its documents.

        Returns None when it does not come. Raises EventTooLargeError.
        """
        # Opened by time: the added filter would hide a token's event from the server, which searches it.
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
        """Returns a time after all writes so far: streams start at a time, not behind it."""
        newest: Timestamp = (await self._database.command("ping"))["operationTime"]
        return Timestamp(newest.time, newest.inc + 1)

    async def check_reachable(self, time: Timestamp) -> None:
        """Raises PositionUnusableError when the oplog does not reach back so far."""
        nothing = [{"$match": {"operationType": "none"}}]
        with translate_errors(None, StreamPosition(None, time)):
            async with await self._database.watch(
                nothing, start_at_operation_time=time, max_await_time_ms=self._max_await_ms
            ) as stream:
                await stream.try_next()


async def read_next_event(stream: Stream, plan: StreamPlan, position: StreamPosition) -> Event | None:
    """Returns None when no event came while the server waited for one."""
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
    is_transient = error.code in _TRANSIENT_CODES or any(error.has_error_label(label) for label in _TRANSIENT_LABELS)
    has_special_options = plan.own_pipeline or plan.pre_image is not None or plan.full_document == "whenAvailable"
    return has_special_options and not is_transient


def _refusal_text(error: OperationFailure) -> str:
    message = (error.details or {}).get("errmsg") or str(error)
    return f"MongoDB refuses it: {str(message)[:300]} (code {error.code})"
