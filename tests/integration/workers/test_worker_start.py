"""A worker that cannot start says so in one line and ends."""

import asyncio
from dataclasses import replace

import pytest

from ops.free_ports import free_address
from ops.supervisor import role_command
from tests.integration.stage import Stage
from workers.settings import as_environment

pytestmark = pytest.mark.integration


async def test_without_mongodb_a_worker_ends_with_one_line(stage: Stage) -> None:
    settings = replace(stage.settings, mongodb_url=f"mongodb://{free_address()}")
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
