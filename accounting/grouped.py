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

from accounting.store_errors import store_is_away

Item = TypeVar("Item")
Result = TypeVar("Result")

MOST_AT_ONCE = 200


class Grouped(Generic[Item, Result]):
    def __init__(
        self,
        do_all: Callable[[Sequence[Item]], Awaitable[Sequence[Result | Exception]]],
        *,
        forget_cancelled: bool = False,
    ) -> None:
        """`do_all` answers for each item, in order; what it raises is raised for all of them. `forget_cancelled`: while
        a store is away those who gave up do not pile up here, and nothing is done that they were told was not."""
        self._do_all = do_all
        self._forget_cancelled = forget_cancelled
        self._waiting: OrderedDict[asyncio.Future[Result], Item] = OrderedDict()
        self._working: asyncio.Task[None] | None = None

    async def do(self, item: Item) -> Result:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Result] = loop.create_future()
        self._waiting[answer] = item
        if self._working is None:
            # In no caller's context: a deadline of one would be all others' as well.
            self._working = loop.create_task(self._work(), name="grouped commands", context=Context())
        try:
            return await answer
        finally:
            if self._forget_cancelled:
                self._waiting.pop(answer, None)

    async def do_together(self, items: Sequence[Item]) -> Sequence[Result | Exception]:
        """For who has many at once: one command of their own, and each one's error in its place."""
        return await self._answered(items)

    async def _work(self) -> None:
        asked: Mapping[asyncio.Future[Result], Item] = {}
        try:
            while self._waiting:
                some = [self._waiting.popitem(last=False) for _ in range(min(len(self._waiting), MOST_AT_ONCE))]
                asked = dict(each for each in some if not (self._forget_cancelled and each[0].cancelled()))
                results = await self._answered([*asked.values()])
                for answer, result in zip(asked, results, strict=True):
                    _tell(answer, result)
        finally:
            self._working = None
            for answer in (*asked, *self._waiting):  # left only where this was cut off, as by a loop that closes
                answer.cancel()
            self._waiting.clear()

    async def _answered(self, items: Sequence[Item]) -> Sequence[Result | Exception]:
        if not items:
            return []
        try:
            return await self._do_all(items)
        except Exception as error:  # noqa: BLE001 -- raised again where its part is awaited
            is_of_all = len(items) == 1 or (isinstance(error, PyMongoError) and store_is_away(error))
            if is_of_all:
                return [error] * len(items)
        return [result for item in items for result in await self._answered([item])]  # one of them is not to be sent


def _tell(answer: "asyncio.Future[Result]", result: Result | Exception) -> None:
    if answer.done():
        return  # its caller was cancelled
    if isinstance(result, Exception):
        answer.set_exception(result)
    else:
        answer.set_result(result)


async def each_written(write: Awaitable[Any], count: int) -> Sequence[Exception | None]:
    """Of an unordered bulk of so many writes: what became of each."""
    try:
        await write
    except BulkWriteError as error:
        details = error.details or {}
        failed = {each["index"]: _error_of(each) for each in details.get("writeErrors", ())}
        unsure = _unsure(details)
        return [failed.get(index, unsure) for index in range(count)]
    return [None] * count


def _error_of(failure: Mapping[str, Any]) -> Exception:
    kind = DuplicateKeyError if failure["code"] == 11000 else OperationFailure
    return kind(failure.get("errmsg", ""), failure["code"], dict(failure))


def _unsure(details: Mapping[str, Any]) -> Exception | None:
    """Written, but maybe not on a majority: each caller may ask again, as after any lost answer."""
    concerns = details.get("writeConcernErrors")
    return WTimeoutError(str(concerns[0].get("errmsg", "")), concerns[0].get("code")) if concerns else None
