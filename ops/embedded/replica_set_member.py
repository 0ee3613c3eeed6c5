"""A stopped replica set of one is reconfigured for a changed port.

A mongod whose own address is not in its configuration connects to the address that is, to see whether it is
itself. If another process has that port and stays silent, this takes 30 s. So the configuration is changed
first, as MongoDB's manual does it for an unavailable set: by a mongod that runs alone on the same files.
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
    """After a kill, running alone would skip what is in the oplog but not in the data yet: then it is not done."""
    lock = folder / "mongod.lock"
    return lock.exists() and lock.stat().st_size == 0


def direct_client(port: int) -> AsyncMongoClient[dict[str, Any]]:
    """One server and short waits.

    PyMongo leaves a socket open when it is closed while a monitor connects: hence one monitor, that only polls,
    and connections that outlive the selection.
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
    """`argv` starts a mongod without a replica set on `port`. If it fails, the ordinary start is slow, not wrong."""
    alone = await start_child(argv, death_signal="TERM", output=log, inherited_fds=(lock_fd,))
    try:
        with suppress(PyMongoError, TimeoutError):
            async with asyncio.timeout(_TIMEOUT_S):
                await _rewrite_config(port, folder)
    finally:
        await stop_child(alone, grace_s=_TIMEOUT_S)


async def _rewrite_config(port: int, folder: Path) -> None:
    await wait_port_open(port)
    async with direct_client(port) as client:
        if not await is_own_server(client.admin, folder):
            return
        sets = client.local["system.replset"]
        async for config in sets.find():
            members = [config["members"][0] | {"host": f"{LOOPBACK}:{port}"}]
            await sets.update_one({"_id": config["_id"]}, {"$set": {"members": members}, "$inc": {"version": 1}})
