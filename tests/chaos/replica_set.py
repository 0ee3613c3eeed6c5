"""A MongoDB replica set of three on this machine, whose members can be killed and started again."""

import asyncio
import contextlib
import signal
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

from pymongo import MongoClient
from pymongo.errors import PyMongoError

from ops.embedded.binaries import ServerBinary, find_mongod
from ops.embedded.embedded_mongodb import mongod_argv
from ops.embedded.loopback_ports import LOOPBACK, is_port_open
from ops.processes.child_process import start_child, stop_child
from tests.integration.stage import wait_until
from tests.lasting_ports import lasting_port

SET = "three"
MEMBERS = 3
TIMES = {"electionTimeoutMillis": 2000, "heartbeatIntervalMillis": 500, "catchUpTimeoutMillis": 2000}


class ReplicaSet:
    def __init__(self, binary: ServerBinary, folder: Path) -> None:
        self._binary = binary
        self._folder = folder
        self._processes: dict[int, Process] = {}
        self.ports: list[int] = []

    @property
    def url(self) -> str:
        hosts = ",".join(f"{LOOPBACK}:{port}" for port in self.ports)
        return f"mongodb://{hosts}/?replicaSet={SET}"

    async def start(self) -> None:
        while len(self.ports) < MEMBERS:
            self.ports.append(lasting_port())
            await self.start_member(self.ports[-1])
        members = [{"_id": number, "host": f"{LOOPBACK}:{port}"} for number, port in enumerate(self.ports)]
        config = {"_id": SET, "members": members, "settings": TIMES}
        await wait_until("the set is made", lambda: self._run_command(self.ports[0], "replSetInitiate", config))
        await self.primary()

    async def start_member(self, port: int) -> None:
        folder = self._folder / str(port)
        folder.mkdir(parents=True, exist_ok=True)
        argv = [*mongod_argv(self._binary, folder=folder, port=port), "--replSet", SET]
        counted = ("--setParameter", "reportOpWriteConcernCountersInServerStatus=true")
        self._processes[port] = await start_child(
            [*argv, *counted], death_signal="KILL", output=self._folder / f"{port}.log"
        )

    async def _run_command(self, port: int, command: str, value: Any = 1, **options: Any) -> Mapping[str, Any] | None:
        if not await is_port_open(port):
            return None
        return await asyncio.to_thread(_command_reply, port, command, value, options)

    async def primary(self) -> int:
        """The port of the member that takes writes, once there is one."""

        async def found() -> int | None:
            for port in self.ports:
                hello = await self._run_command(port, "hello")
                if hello and hello.get("isWritablePrimary"):
                    return port
            return None

        port: int = await wait_until("there is a primary", found, within_s=60)
        return port

    async def kill_primary(self) -> None:
        """kill -9. It comes back once another one is primary, and gives up what nobody else has of its writes."""
        port = await self.primary()
        self._processes[port].send_signal(signal.SIGKILL)
        await self._processes[port].wait()
        await self.primary()
        await self.start_member(port)

    async def step_down(self) -> None:
        port = await self.primary()
        await self._run_command(port, "replSetStepDown", 10, secondaryCatchUpPeriodSecs=5)

        async def another() -> bool:
            return await self.primary() != port

        await wait_until("another member is primary", another)

    async def wait_for_all_members(self) -> None:
        async def healthy() -> bool:
            status = await self._run_command(await self.primary(), "replSetGetStatus")
            states = [member["stateStr"] for member in status["members"]] if status else []
            return sorted(states) == ["PRIMARY", "SECONDARY", "SECONDARY"]

        await wait_until("all members are back", healthy, within_s=60)

    async def write_concerns(self) -> list[Mapping[str, Any]]:
        """How the writes that each member has seen since its start were to be acknowledged."""
        said = await asyncio.gather(*(self._run_command(port, "serverStatus") for port in self.ports))
        return [status["opWriteConcernCounters"] for status in said if status is not None]

    async def stop(self) -> None:
        await asyncio.gather(*(stop_child(each, grace_s=0.1) for each in self._processes.values()))


def _command_reply(port: int, command: str, value: Any, options: Mapping[str, Any]) -> Mapping[str, Any] | None:
    client: MongoClient[dict[str, Any]] = MongoClient(
        LOOPBACK, port, directConnection=True, serverSelectionTimeoutMS=1000
    )
    with client:
        try:
            answer: Mapping[str, Any] = client.admin.command(command, value, **options)
            return answer
        except PyMongoError:  # not yet, or not any more: whoever is told to step down hangs up on everybody
            return None


@contextlib.asynccontextmanager
async def replica_set_of_three(folder: Path) -> AsyncIterator[ReplicaSet]:
    three = ReplicaSet(await asyncio.to_thread(find_mongod), folder)
    try:
        await three.start()
        yield three
    finally:
        await three.stop()
