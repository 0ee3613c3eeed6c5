"""Grouped: what many runs ask of the store at the same moment goes there in one command.

While a command is under way, what comes meanwhile waits, and goes with the next one: alone nobody waits for company,
and in a crowd all share one round trip and one journal. Each caller hears of its own part only. A caller that is
cancelled leaves its part behind: it is still done, unless it is said that such parts are wanted by nobody any more.
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
        """`do_all` answers for each item, in order; what it raises is raised for all of them. `forget_cancelled`: while
        a store is away those who gave up do not pile up here, and nothing is done that they were told was not."""
        self._write_all = write_all
        self._drop_cancelled = drop_cancelled
        self._waiting: OrderedDict[asyncio.Future[Result], Item] = OrderedDict()
        self._task: asyncio.Task[None] | None = None

    async def submit(self, item: Item) -> Result:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Result] = loop.create_future()
        self._waiting[answer] = item
        if self._task is None:
            # In no caller's context: a deadline of one would be all others' as well.
            self._task = loop.create_task(self._write_waiting(), name="grouped commands", context=Context())
        try:
            return await answer
        finally:
            if self._drop_cancelled:
                self._waiting.pop(answer, None)

    async def submit_all(self, items: Sequence[Item]) -> Sequence[Result | Exception]:
        """For who has many at once: one command of their own, and each one's error in its place."""
        return await self._write(items)

    async def _write_waiting(self) -> None:
        asked: Mapping[asyncio.Future[Result], Item] = {}
        try:
            while self._waiting:
                some = [
                    self._waiting.popitem(last=False) for _ in range(min(len(self._waiting), MAX_ITEMS_PER_COMMAND))
                ]
                asked = dict(each for each in some if not (self._drop_cancelled and each[0].cancelled()))
                results = await self._write([*asked.values()])
                for answer, result in zip(asked, results, strict=True):
                    _resolve(answer, result)
        finally:
            self._task = None
            for answer in (*asked, *self._waiting):  # left only where this was cut off, as by a loop that closes
                answer.cancel()
            self._waiting.clear()

    async def _write(self, items: Sequence[Item]) -> Sequence[Result | Exception]:
        if not items:
            return []
        try:
            return await self._write_all(items)
        except Exception as error:  # noqa: BLE001 -- raised again where its part is awaited
            is_of_all = len(items) == 1 or (isinstance(error, PyMongoError) and is_unavailable(error))
            if is_of_all:
                return [error] * len(items)
        return [result for item in items for result in await self._write([item])]  # one of them is not to be sent


def _resolve(answer: "asyncio.Future[Result]", result: Result | Exception) -> None:
    if answer.done():
        return  # its caller was cancelled
    if isinstance(result, Exception):
        answer.set_exception(result)
    else:
        answer.set_result(result)


async def collect_bulk_errors(write: Awaitable[Any], count: int) -> Sequence[Exception | None]:
    """Of an unordered bulk of so many writes: what became of each."""
    try:
        await write
    except BulkWriteError as error:
        details = error.details or {}
        failed = {each["index"]: _to_error(each) for each in details.get("writeErrors", ())}
        unsure = _write_concern_error(details)
        return [failed.get(index, unsure) for index in range(count)]
    return [None] * count


def _to_error(failure: Mapping[str, Any]) -> Exception:
    kind = DuplicateKeyError if failure["code"] == 11000 else OperationFailure
    return kind(failure.get("errmsg", ""), failure["code"], dict(failure))


def _write_concern_error(details: Mapping[str, Any]) -> Exception | None:
    """Written, but maybe not on a majority: each caller may ask again, as after any lost answer."""
    concerns = details.get("writeConcernErrors")
    return WTimeoutError(str(concerns[0].get("errmsg", "")), concerns[0].get("code")) if concerns else None
