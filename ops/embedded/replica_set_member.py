"""The member of the replica set of one: its configuration is rewritten when its port has changed.

A mongod that does not find its own address in its configuration connects to the configured one, to check whether that
is itself. If another process has that port and never answers, this takes 30 s. Therefore the configuration is changed
before the start, as MongoDB's manual does for an unavailable set: by a standalone mongod on the same files.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pymongo import AsyncMongoClient
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import PyMongoError

from ops.embedded.loopback_ports import LOOPBACK, wait_port_open
from ops.processes.child_process import start_child, stop_child

_TIMEOUT_S = 20.0


def has_stopped_cleanly(folder: Path) -> bool:
    """Returns whether the last mongod was shut down, not killed.

    After a kill, a standalone mongod would skip writes that are in the oplog but not in the data files yet.
    """
    lock = folder / "mongod.lock"
    return lock.exists() and lock.stat().st_size == 0


def direct_client(port: int) -> AsyncMongoClient[dict[str, Any]]:
    """Returns a client of one server, with short timeouts.

    PyMongo leaks a socket when it is closed while a monitor connects. Hence there is one monitor, which only polls, and
    connecting may take longer than the selection of a server.
    """
    return AsyncMongoClient(
        LOOPBACK,
        port,
        directConnection=True,
        serverMonitoringMode="poll",
        serverSelectionTimeoutMS=1_800,
        socketTimeoutMS=1_800,
        connectTimeoutMS=2_300,
    )


async def is_own_server(admin: AsyncDatabase[dict[str, Any]], folder: Path) -> bool:
    """Checks that this is the embedded server: another process may have taken the chosen port."""
    options = await admin.command("getCmdLineOpts")
    return bool(options["parsed"].get("storage", {}).get("dbPath") == str(folder))


async def move_member(argv: Sequence[str], *, folder: Path, port: int, log: Path, lock_fd: int) -> None:
    """Rewrites the configuration with `argv`, a standalone mongod on `port`.

    If this fails, the ordinary start still succeeds, but slowly.
    """
    standalone = await start_child(argv, death_signal="TERM", output=log, inherited_fds=(lock_fd,))
    try:
        with suppress(PyMongoError, TimeoutError):
            async with asyncio.timeout(_TIMEOUT_S):
                await _rewrite_config(port, folder)
    finally:
        await stop_child(standalone, grace_s=_TIMEOUT_S)


async def _rewrite_config(port: int, folder: Path) -> None:
    await wait_port_open(port)
    async with direct_client(port) as client:
        if not await is_own_server(client.admin, folder):
            return
        sets = client.local["system.replset"]
        async for config in sets.find():
            members = [config["members"][0] | {"host": f"{LOOPBACK}:{port}"}]
            await sets.update_one({"_id": config["_id"]}, {"$set": {"members": members}, "$inc": {"version": 1}})
