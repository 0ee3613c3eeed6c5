"""Grouped: what many runs ask of the store at the same moment goes there in one command.

While a command is under way, what comes meanwhile waits, and goes with the next one: alone nobody waits for company,
and in a crowd all share one round trip and one journal. Each caller hears of its own part only. A caller that is
cancelled leaves its part behind: it is still done.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from pymongo.errors import BulkWriteError, DuplicateKeyError, OperationFailure, PyMongoError, WTimeoutError

from accounting.store_errors import store_is_away

Item = TypeVar("Item")
Result = TypeVar("Result")

MOST_AT_ONCE = 200


class Grouped(Generic[Item, Result]):
    def __init__(self, do_all: Callable[[Sequence[Item]], Awaitable[Sequence[Result | Exception]]]) -> None:
        """`do_all` answers for each item, in order; what it raises is raised for all of them."""
        self._do_all = do_all
        self._waiting: deque[tuple[Item, asyncio.Future[Result]]] = deque()
        self._working: asyncio.Task[None] | None = None

    async def do(self, item: Item) -> Result:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Result] = loop.create_future()
        self._waiting.append((item, answer))
        if self._working is None:
            self._working = loop.create_task(self._work(), name="grouped commands")
        return await answer

    async def _work(self) -> None:
        try:
            while self._waiting:
                some = [self._waiting.popleft() for _ in range(min(len(self._waiting), MOST_AT_ONCE))]
                results = await self._answered([item for item, _ in some])
                for (_, answer), result in zip(some, results, strict=True):
                    _tell(answer, result)
        finally:
            self._working = None

    async def _answered(self, items: Sequence[Item]) -> Sequence[Result | Exception]:
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
