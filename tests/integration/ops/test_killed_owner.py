import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from ops.embedded.embedded_servers import embedded_servers
from tests.integration.ops.processes import descendants, wait_until, wait_until_gone
from workers.embedded_services import read_services

pytestmark = pytest.mark.integration

OWNER = Path(__file__).with_name("owner.py")


class OwnerProcess:
    def __init__(self, data_dir: Path) -> None:
        self.process = subprocess.Popen([sys.executable, str(OWNER), str(data_dir)], stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        self.roles: dict[str, int] = json.loads(self.process.stdout.readline())
        self.children = [child.pid for child in descendants(self.process.pid)]

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
async def owner(tmp_path: Path) -> "Iterator[OwnerProcess]":  # type: ignore[misc]  # an async generator fixture -- pytest-asyncio's own typing
    owner = OwnerProcess(tmp_path)
    await wait_until("the deaf role is deaf", lambda: "deaf" in (tmp_path / "roles" / "deaf.log").read_text("utf-8"))
    yield owner
    owner.close()


async def test_kill_9_of_the_owner_leaves_no_process(owner: OwnerProcess, tmp_path: Path) -> None:
    assert {psutil.Process(pid).name() for pid in owner.children} >= {"mongod", "valkey-server"}
    assert len(owner.children) == 4

    owner.process.send_signal(signal.SIGKILL)
    await wait_until_gone(owner.children, within_s=5)

    assert read_services(tmp_path) is None


async def test_the_next_owner_can_start_at_once(owner: OwnerProcess, tmp_path: Path) -> None:
    owner.process.send_signal(signal.SIGKILL)
    owner.process.wait()

    async with embedded_servers(tmp_path) as services:
        assert services.owner_pid == os.getpid()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_stops_everything_in_order(owner: OwnerProcess, tmp_path: Path, number: signal.Signals) -> None:
    owner.process.send_signal(number)
    assert owner.process.wait(timeout=10) == 0

    await wait_until_gone(owner.children, within_s=1)
    assert not (tmp_path / "services.json").exists()


async def test_ctrl_c_on_the_terminal_reaches_only_the_owner(owner: OwnerProcess) -> None:
    groups = {os.getpgid(pid) for pid in owner.children}

    assert os.getpgid(owner.process.pid) not in groups
    assert len(groups) == len(owner.children)
