"""Worker start: a failed start is one log line."""

import asyncio
from dataclasses import replace

import pytest

from ops.free_ports import find_free_address
from ops.processes.supervisor import role_command
from tests.integration.stage import Stage
from workers.settings import as_environment

pytestmark = pytest.mark.integration


async def test_without_mongodb_a_worker_ends_with_one_line(stage: Stage) -> None:
    settings = replace(stage.settings, mongodb_url=f"mongodb://{find_free_address()}")
    worker = await asyncio.create_subprocess_exec(
        *role_command("worker"),
        env=as_environment(settings),
        cwd=stage.folder,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )

    output, _ = await asyncio.wait_for(worker.communicate(), 30)

    log = output.decode()
    assert worker.returncode == 1, log
    assert [line for line in log.splitlines() if "worker_cannot_start" in line] == log.splitlines()[-1:], log
    assert "Traceback" not in log
    assert "worker_ready" not in log


@pytest.mark.parametrize("command", ["worker", "up"])
async def test_a_mistake_in_the_operators_file_ends_a_start_with_one_line(stage: Stage, command: str) -> None:
    file = stage.folder / "unattended.yaml"
    file.write_text("compat: {databases: [admin]}", encoding="utf-8")
    process = await asyncio.create_subprocess_exec(
        *role_command(command),
        env=as_environment(stage.settings),
        cwd=stage.folder,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )

    output, _ = await asyncio.wait_for(process.communicate(), 30)

    assert process.returncode == 2
    said = f"{file}: compat.databases.0: admin belongs to the database server and no package may open it; remove it"
    assert output.decode() == f"unattended: {said}\n"
