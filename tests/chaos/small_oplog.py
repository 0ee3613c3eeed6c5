"""A MongoDB whose oplog is so small that a few writes push everything else out of it."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from bson.timestamp import Timestamp
from pymongo import AsyncMongoClient
from pymongo.asynchronous.database import AsyncDatabase

from ops.embedded.binaries import find_mongod
from ops.embedded.embedded_mongodb import mongod_argv
from ops.embedded.loopback_ports import LOOPBACK, is_port_open
from ops.processes.child_process import start_child, stop_child
from tests.integration.stage import wait_until
from tests.lasting_ports import lasting_port

OPLOG_MB = 4
DOCUMENT = "x" * 1024 * 1024

Document = dict[str, Any]


@contextlib.asynccontextmanager
async def mongodb_with_small_oplog(folder: Path) -> AsyncIterator[str]:
    """Its URL."""
    port = lasting_port()
    data = folder / "small"
    data.mkdir()
    argv = mongod_argv(find_mongod(), folder=data, port=port)
    argv[argv.index("--oplogSize") + 1] = str(OPLOG_MB)
    # What a crash would need stays in the oplog, so checkpoints have to be frequent too.
    process = await start_child(
        [*argv, "--replSet", "small", "--syncdelay", "1"], death_signal="KILL", output=folder / "small.log"
    )
    try:
        await wait_until("it listens", lambda: is_port_open(port))
        async with AsyncMongoClient[Document](LOOPBACK, port, directConnection=True) as client:
            members = [{"_id": 0, "host": f"{LOOPBACK}:{port}"}]
            await client.admin.command("replSetInitiate", {"_id": "small", "members": members})

            async def is_primary() -> bool:
                return bool((await client.admin.command("hello")).get("isWritablePrimary"))

            await wait_until("it takes writes", is_primary)
        yield f"mongodb://{LOOPBACK}:{port}/?replicaSet=small"
    finally:
        await stop_child(process, grace_s=0.1)


async def oplog_start(database: AsyncDatabase[Document]) -> Any:
    first = await database.client["local"]["oplog.rs"].find_one({}, {"ts": 1}, sort=[("$natural", 1)])
    return None if first is None else first["ts"]


async def flood(database: AsyncDatabase[Document], *, collection: str = "noise") -> Timestamp:
    """Until nothing of what was in the oplog is left there; the time of the last write."""
    before = await _last_write(database)

    async def gone() -> bool:
        await database[collection].insert_many([{"text": DOCUMENT} for _ in range(OPLOG_MB)])
        return bool(await oplog_start(database) > before)

    await wait_until("the oplog has moved on", gone, within_s=60)
    return await _last_write(database)


async def _last_write(database: AsyncDatabase[Document]) -> Timestamp:
    time: Timestamp = (await database.client.admin.command("hello"))["lastWrite"]["opTime"]["ts"]
    return time
