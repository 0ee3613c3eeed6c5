"""The oplog: how far back a stream could go on from. The shorter that is, the shorter a watcher may be away."""

import time
from typing import Any

from pymongo.asynchronous.mongo_client import AsyncMongoClient
from pymongo.errors import OperationFailure


async def oplog_window_s(client: AsyncMongoClient[dict[str, Any]]) -> float | None:
    """None where we may not look."""
    try:
        first = await client["local"]["oplog.rs"].find_one({}, {"ts": 1}, sort=[("$natural", 1)])
    except OperationFailure:
        return None
    return None if first is None else max(0.0, time.time() - first["ts"].time)
