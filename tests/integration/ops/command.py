"""The command in a process of its own, against a stage's servers."""

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from dataclasses import dataclass, replace
from typing import Any

from ops.processes.supervisor import PROGRAM
from tests.integration.stage import Stage
from workers.settings import as_environment


@dataclass(frozen=True, slots=True)
class CommandResult:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def command(*arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-P", str(PROGRAM), *arguments)


def environment(stage: Stage) -> dict[str, str]:
    return as_environment(replace(stage.settings, environ={}))


async def start_command(stage: Stage, *arguments: str, **changes: Any) -> Process:
    """`changes` replace settings of the stage for this process."""
    return await asyncio.create_subprocess_exec(
        *command(*arguments),
        env=as_environment(replace(stage.settings, environ={}, **changes)),
        cwd=stage.folder,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
    )


async def unattended(stage: Stage, *arguments: str, **changes: Any) -> CommandResult:
    process = await start_command(stage, *arguments, **changes)
    out, err = await asyncio.wait_for(process.communicate(), 60)
    assert "Traceback" not in err.decode()
    return CommandResult(process.returncode or 0, out.decode(), err.decode())
