"""Snapshot reads: several queries that see the store at one and the same time."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import OperationFailure, WTimeoutError

Result = TypeVar("Result")

# MongoDB has no snapshot of a collection or index that was created a moment ago.
SNAPSHOT_UNAVAILABLE = 246
MAX_TRIES, PAUSE_S = 20, 0.1


async def snapshot_read(
    database: AsyncDatabase[dict[str, Any]], read: Callable[[AsyncClientSession], Awaitable[Result]]
) -> Result:
    for _ in range(MAX_TRIES):
        try:
            async with database.client.start_session(snapshot=True) as session:
                return await read(session)
        except OperationFailure as error:
            if error.code != SNAPSHOT_UNAVAILABLE:
                raise
            await asyncio.sleep(PAUSE_S)
    raise WTimeoutError("collections or indexes are being created; their snapshot is not on a majority yet")
