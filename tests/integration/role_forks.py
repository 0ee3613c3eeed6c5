"""Roles that need not import everything again: one process of the session imports, and forks each role that is asked
for. A forked role is a process like any other: of its own pid, environment, folder and log, killed and waited for.
"""

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ops.processes.supervisor import PROGRAM

FORKER = Path(__file__).with_name("role_forker.py")


class ForkedProcess(Process):
    """What asyncio says of a child, of a grandchild."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.stdin = self.stdout = self.stderr = None
        self._ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def has_ended(self, returncode: int) -> None:
        self._ended.set_result(returncode)

    @property
    def returncode(self) -> int | None:
        return self._ended.result() if self._ended.done() else None

    async def wait(self) -> int:
        return await asyncio.shield(self._ended)

    def send_signal(self, signal: int) -> None:
        if self.returncode is not None:
            raise ProcessLookupError
        os.kill(self.pid, signal)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class RoleForks:
    """One forker a session, started when the first role is asked for."""

    def __init__(self) -> None:
        self._forker: Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self._requests: asyncio.Queue[asyncio.Future[ForkedProcess]] = asyncio.Queue()
        self._living: dict[int, ForkedProcess] = {}

    async def start(self, command: Sequence[str], *, env: Mapping[str, str], log: Path, folder: Path) -> ForkedProcess:
        """`command` as for subprocess: this Python, its options, a program and its arguments."""
        program = next(at for at, word in enumerate(command) if word.endswith(".py"))
        request = {"argv": list(command[program:]), "env": dict(env), "log": str(log), "folder": str(folder)}
        async with self._starting:
            if self._forker is None:
                self._forker = await asyncio.create_subprocess_exec(
                    sys.executable, "-P", str(FORKER), str(PROGRAM), stdin=PIPE, stdout=PIPE, limit=2**20
                )
                self._reading = asyncio.create_task(self._read(self._forker))
        started: asyncio.Future[ForkedProcess] = asyncio.get_running_loop().create_future()
        self._requests.put_nowait(started)
        assert self._forker.stdin is not None
        self._forker.stdin.write(json.dumps(request).encode() + b"\n")
        return await asyncio.shield(started)

    async def _read(self, forker: Process) -> None:
        assert forker.stdout is not None
        while line := await forker.stdout.readline():
            said: dict[str, Any] = json.loads(line)
            if "returncode" in said:
                self._living.pop(said["pid"]).has_ended(said["returncode"])
            else:
                process = self._living[said["pid"]] = ForkedProcess(said["pid"])
                self._requests.get_nowait().set_result(process)

    async def close(self) -> None:
        """Ends every role that still lives, too."""
        if self._forker is not None and self._reading is not None:
            assert self._forker.stdin is not None
            self._forker.stdin.close()
            await self._forker.wait()
            await self._reading
        self._forker = None


FORKS = RoleForks()
