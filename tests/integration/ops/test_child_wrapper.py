import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ops.embedded.binaries import find_redis
from ops.embedded.loopback_ports import find_free_port, wait_port_open
from ops.processes.child_process import start_child, stop_child
from tests.integration.ops.processes import descendants, is_running, wait_until, wait_until_gone

pytestmark = [pytest.mark.integration, pytest.mark.parametrize("watch", [False, True], ids=["kernel", "watch"])]

# Starts a command, prints the process ids, and stays until it is killed.
PARENT = """
import asyncio, json, sys
from pathlib import Path
from ops.processes.child_process import start_child
async def main():
    argv, last_signal, watch, log = json.loads(sys.argv[1])
    child = await start_child(argv, death_signal=last_signal, watch=watch, output=Path(log))
    print(child.pid, flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); signal.pause()"


def start_parent(argv: list[str], last_signal: str, watch: bool, log: Path) -> tuple["subprocess.Popen[bytes]", int]:
    order = json.dumps([argv, last_signal, watch, str(log)])
    parent = subprocess.Popen([sys.executable, "-c", PARENT, order], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    return parent, int(parent.stdout.readline())


def has_logged(log: Path, word: str) -> bool:
    return log.exists() and word in log.read_text("utf-8")


async def test_a_server_ends_when_its_parent_is_killed(watch: bool, tmp_path: Path) -> None:
    port = find_free_port()
    argv = [str(find_redis().path), "--port", str(port), "--bind", "127.0.0.1", "--dir", str(tmp_path), "--save", ""]
    parent, pid = start_parent(argv, "TERM", watch, tmp_path / "log")
    async with asyncio.timeout(10):
        await wait_port_open(port)
    pids = [pid, *(child.pid for child in descendants(pid))]

    parent.kill()
    parent.communicate()

    await wait_until_gone(pids, within_s=5)
    assert has_logged(tmp_path / "log", "bye bye")


async def test_a_child_that_ignores_sigterm_ends_as_well(watch: bool, tmp_path: Path) -> None:
    parent, pid = start_parent([sys.executable, "-c", DEAF], "KILL", watch, tmp_path / "log")
    await wait_until("the child is deaf", lambda: has_logged(tmp_path / "log", "deaf"))
    pids = [pid, *(child.pid for child in descendants(pid))]

    parent.kill()
    parent.communicate()

    await wait_until_gone(pids, within_s=5)


async def test_stop_ends_a_child_that_ignores_sigterm_after_the_grace(watch: bool, tmp_path: Path) -> None:
    log = tmp_path / "log"
    child = await start_child([sys.executable, "-c", DEAF], death_signal="KILL", watch=watch, output=log)
    await wait_until("the child is deaf", lambda: has_logged(log, "deaf"))
    pids = [child.pid, *(each.pid for each in descendants(child.pid))]

    await stop_child(child, grace_s=0.2)

    assert child.returncode == -signal.SIGKILL
    await wait_until_gone(pids, within_s=1)


async def test_sigterm_reaches_the_program(watch: bool, tmp_path: Path) -> None:
    log = tmp_path / "log"
    program = "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(7)); print('up', flush=True)"
    child = await start_child(
        [sys.executable, "-c", f"{program}; signal.pause()"], death_signal="KILL", watch=watch, output=log
    )
    await wait_until("the program is up", lambda: has_logged(log, "up"))

    await stop_child(child, grace_s=10)

    assert child.returncode == 7


async def test_a_death_by_signal_looks_like_one(watch: bool) -> None:
    program = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    child = await start_child([sys.executable, "-c", program], death_signal="KILL", watch=watch)

    assert await child.wait() == -signal.SIGKILL


async def test_a_program_that_is_not_there_is_one_line(watch: bool, tmp_path: Path) -> None:
    child = await start_child(["/no/such/program"], death_signal="KILL", watch=watch, output=tmp_path / "log")

    assert await child.wait() == 127
    assert (tmp_path / "log").read_text("utf-8") == "/no/such/program cannot be started: No such file or directory\n"


async def test_stop_takes_along_what_the_child_left_behind(watch: bool, tmp_path: Path) -> None:
    log = tmp_path / "log"
    program = "import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', sys.argv[1]]).pid, flush=True)"
    child = await start_child([sys.executable, "-c", program, DEAF], death_signal="KILL", watch=watch, output=log)
    await child.wait()
    left_behind = int(log.read_text("utf-8").split()[0])
    assert is_running(left_behind)

    await stop_child(child, grace_s=1)

    await wait_until_gone([left_behind], within_s=1)


async def test_the_program_gets_descriptors_that_are_meant_for_it(watch: bool) -> None:
    reader, writer = os.pipe()
    program = f"import os; os.write({writer}, b'here')"
    child = await start_child(
        [sys.executable, "-c", program], death_signal="KILL", watch=watch, inherited_fds=(writer,)
    )
    os.close(writer)

    assert await child.wait() == 0
    assert os.read(reader, 10) == b"here"
    os.close(reader)
