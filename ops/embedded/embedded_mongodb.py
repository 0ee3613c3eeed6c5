"""The embedded MongoDB: a replica set of one, since change streams and majority writes need one."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import OperationFailure, PyMongoError

from ops.embedded.binaries import ServerBinary
from ops.embedded.embedded_server import ServerSpec
from ops.embedded.loopback_ports import LOOPBACK, is_port_open, wait_port_open
from ops.embedded.replica_set_member import direct_client, has_stopped_cleanly, is_own_server, move_member

REPLICA_SET = "rs0"
_CODE_NOT_INITIALIZED = 94
_CODE_NOT_A_MEMBER = 93


def mongodb_url(port: int) -> str:
    return f"mongodb://{LOOPBACK}:{port}/?replicaSet={REPLICA_SET}"


def mongodb_spec(binary: ServerBinary, *, folder: Path, log: Path, last_port: int | None, lock_fd: int) -> ServerSpec:
    async def prepare(port: int) -> None:
        if not last_port or last_port == port or not has_stopped_cleanly(folder):
            return
        if await is_port_open(last_port):
            argv = mongod_argv(binary, folder=folder, port=port)
            await move_member(argv, folder=folder, port=port, log=log, lock_fd=lock_fd)

    async def wait_ready(port: int, is_alive: Callable[[], bool]) -> bool:
        # A client that is created before the socket is open tries again only every 0.5 s.
        if not await wait_port_open(port, is_alive):
            return False
        async with direct_client(port) as client:
            while is_alive():
                if await _try_become_primary(client.admin, port, folder):
                    return True
                await asyncio.sleep(0.01)
        return False

    return ServerSpec(
        name="mongodb",
        binary=binary,
        log=log,
        argv=lambda port: [*mongod_argv(binary, folder=folder, port=port), "--replSet", REPLICA_SET],
        wait_ready=wait_ready,
        advice="or set UNATTENDED_MONGODB_URL",
        prepare=prepare,
    )


def mongod_argv(binary: ServerBinary, *, folder: Path, port: int) -> list[str]:
    return [
        str(binary.path),
        *("--dbpath", str(folder), "--bind_ip", LOOPBACK, "--port", str(port), "--nounixsocket"),
        # A user's filter can carry $function even into a change stream; without scripting it is refused.
        "--noscripting",
        # One laptop's worth of change-stream history, and a journal that is not 100 MB from the start.
        *("--oplogSize", "128"),
        *("--wiredTigerEngineConfigString", "log=(prealloc=false,file_max=16MB)"),
        # The cache is an upper bound, filled as it is used. A fifth of it may be dirty, and what a write dirties counts
        # twice, with its entry in the oplog: with 0.25 GB, six documents of 15 MB at once are all refused
        # ("transaction is too large and will not fit in the storage engine cache") after a minute and a half each.
        *("--wiredTigerCacheSizeGB", "1"),
        # A worker that is killed during a write-back leaves its run locked until the transaction expires.
        *("--setParameter", "transactionLifetimeLimitSeconds=10"),
        *("--setParameter", "diagnosticDataCollectionEnabled=false", "--quiet"),
    ]


async def _try_become_primary(admin: AsyncDatabase[dict[str, Any]], port: int, folder: Path) -> bool:
    """Takes one step. Returns true when the embedded server, and not another one on its port, accepts writes."""
    member = f"{LOOPBACK}:{port}"
    try:
        if not await is_own_server(admin, folder):
            return False
        hello = await admin.command("hello")
        if hello.get("isWritablePrimary"):
            return bool(hello.get("me") == member)
        await admin.command("replSetGetStatus")
    except OperationFailure as failure:
        await _repair_replica_set(admin, member, failure.code)
    except PyMongoError:
        pass
    return False


async def _repair_replica_set(admin: AsyncDatabase[dict[str, Any]], member: str, code: int | None) -> None:
    try:
        if code == _CODE_NOT_INITIALIZED:
            # While an existing set is being loaded, this fails with AlreadyInitialized and changes nothing.
            await admin.command("replSetInitiate", {"_id": REPLICA_SET, "members": [{"_id": 0, "host": member}]})
        elif code == _CODE_NOT_A_MEMBER:
            # The port changed since the last start, so this server is not the configured member.
            config = (await admin.command("replSetGetConfig"))["config"]
            config["members"] = [config["members"][0] | {"host": member}]
            await admin.command("replSetReconfig", config | {"version": config["version"] + 1}, force=True)
    except PyMongoError:
        pass  # the next step sees the state that this one left
