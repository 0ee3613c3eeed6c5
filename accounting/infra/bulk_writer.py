"""The bulk writer: sends what many runs write at the same moment in one command.

While one bulk is in flight, new items form the next one. A lone caller never waits; many callers share one round trip
and one journal sync. Each caller gets the result of its own item only. The item of a cancelled caller is written all
the same, unless `drop_cancelled` is set.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import Context
from typing import Any, Generic, TypeVar

from pymongo.errors import BulkWriteError, DuplicateKeyError, OperationFailure, PyMongoError, WTimeoutError

from accounting.infra.store_errors import is_unavailable

Item = TypeVar("Item")
Result = TypeVar("Result")

MAX_ITEMS_PER_COMMAND = 200


class BulkWriter(Generic[Item, Result]):
    def __init__(
        self,
        write_all: Callable[[Sequence[Item]], Awaitable[Sequence[Result | Exception]]],
        *,
        drop_cancelled: bool = False,
    ) -> None:
        """`write_all` returns one result per item, in order; its error counts for all items.

        `drop_cancelled`: items of cancelled callers are not written. So they do not pile up while a store is
        unavailable, and nothing is written after its caller gave up.
        """
        self._write_all = write_all
        self._drop_cancelled = drop_cancelled
        self._waiting: OrderedDict[asyncio.Future[Result], Item] = OrderedDict()
        self._task: asyncio.Task[None] | None = None

    async def submit(self, item: Item) -> Result:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Result] = loop.create_future()
        self._waiting[answer] = item
        if self._task is None:
            # An empty context: a deadline in the context of one caller would apply to all items.
            self._task = loop.create_task(self._write_waiting(), name="grouped commands", context=Context())
        try:
            return await answer
        finally:
            if self._drop_cancelled:
                self._waiting.pop(answer, None)

    async def submit_all(self, items: Sequence[Item]) -> Sequence[Result | Exception]:
        """Writes many items of one caller in a command of their own.

        Each error takes the place of its result.
        """
        return await self._write(items)

    async def _write_waiting(self) -> None:
        in_flight: Mapping[asyncio.Future[Result], Item] = {}
        try:
            while self._waiting:
                taken = [
                    self._waiting.popitem(last=False) for _ in range(min(len(self._waiting), MAX_ITEMS_PER_COMMAND))
                ]
                in_flight = {
                    answer: item for answer, item in taken if not (self._drop_cancelled and answer.cancelled())
                }
                results = await self._write([*in_flight.values()])
                for answer, result in zip(in_flight, results, strict=True):
                    _resolve(answer, result)
        finally:
            self._task = None
            # Some are left only if this task was cancelled, as by a loop that closes.
            for answer in (*in_flight, *self._waiting):
                answer.cancel()
            self._waiting.clear()

    async def _write(self, items: Sequence[Item]) -> Sequence[Result | Exception]:
        if not items:
            return []
        try:
            return await self._write_all(items)
        except Exception as error:  # noqa: BLE001 -- raised again in the caller of each item
            concerns_all = len(items) == 1 or (isinstance(error, PyMongoError) and is_unavailable(error))
            if concerns_all:
                return [error] * len(items)
        return [result for item in items for result in await self._write([item])]  # one item cannot be sent: find it


def _resolve(answer: "asyncio.Future[Result]", result: Result | Exception) -> None:
    if answer.done():
        return  # its caller was cancelled
    if isinstance(result, Exception):
        answer.set_exception(result)
    else:
        answer.set_result(result)


async def collect_bulk_errors(write: Awaitable[Any], count: int) -> Sequence[Exception | None]:
    """Awaits an unordered bulk of `count` writes. Returns the error of each, or None."""
    try:
        await write
    except BulkWriteError as error:
        details = error.details or {}
        failed = {failure["index"]: _to_error(failure) for failure in details.get("writeErrors", ())}
        unconfirmed = _write_concern_error(details)
        return [failed.get(index, unconfirmed) for index in range(count)]
    return [None] * count


def _to_error(failure: Mapping[str, Any]) -> Exception:
    kind = DuplicateKeyError if failure["code"] == 11000 else OperationFailure
    return kind(failure.get("errmsg", ""), failure["code"], dict(failure))


def _write_concern_error(details: Mapping[str, Any]) -> Exception | None:
    """Builds the error of writes that may not be on a majority.

    Each caller may retry, as after any lost reply.
    """
    concerns = details.get("writeConcernErrors")
    return WTimeoutError(str(concerns[0].get("errmsg", "")), concerns[0].get("code")) if concerns else None
