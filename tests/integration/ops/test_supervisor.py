import asyncio
import logging
import os
import signal
import sys
from pathlib import Path

import pytest

from ops.processes.restart_policy import RestartPolicy
from ops.processes.supervisor import Child, Supervisor
from tests.integration.ops.processes import is_running, wait_until, wait_until_gone

pytestmark = pytest.mark.integration

QUICK = RestartPolicy(min_delay_s=0.01, max_delay_s=0.05)
PAUSE = Child("pause", (sys.executable, "-c", "import signal; signal.pause()"))


def events(caplog: pytest.LogCaptureFixture, name: str) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.getMessage() == name]


async def test_a_killed_child_is_started_again(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with Supervisor([PAUSE], policy=QUICK) as supervisor:
        first = supervisor.pids()["pause"]
        os.kill(first, signal.SIGKILL)
        await wait_until("another process has its place", lambda: supervisor.pids().get("pause", first) != first)
        second = supervisor.pids()["pause"]
        assert is_running(second)

    assert not is_running(second)
    [death] = events(caplog, "role_died")
    assert (vars(death)["child"], vars(death)["signal"]) == ("pause", "SIGKILL")
    assert len(events(caplog, "role_started")) == 2
    assert len(events(caplog, "role_restarting")) == 1


async def test_a_child_that_always_dies_is_started_less_and_less_often(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    dies = Child("dies", (sys.executable, "-c", "raise SystemExit(3)"))

    async with Supervisor([dies, PAUSE], policy=QUICK) as supervisor:
        await wait_until("it died four times", lambda: len(events(caplog, "role_died")) >= 4)
        assert "pause" in supervisor.pids()

    assert {vars(death)["exit_code"] for death in events(caplog, "role_died")} == {3}
    assert [vars(event)["in_s"] for event in events(caplog, "role_restarting")][:4] == [0.01, 0.02, 0.04, 0.05]


async def test_stop_does_not_wait_for_a_backoff() -> None:
    dies = Child("dies", (sys.executable, "-c", "raise SystemExit(3)"))
    supervisor = Supervisor([dies], policy=RestartPolicy(min_delay_s=1000, max_delay_s=1000))
    await supervisor.start()
    await wait_until("it is dead", lambda: supervisor.pids() == {})

    async with asyncio.timeout(5):
        await supervisor.stop()


async def test_a_child_that_ignores_sigterm_is_killed_after_the_grace(tmp_path: Path) -> None:
    program = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); signal.pause()"
    log = tmp_path / "logs" / "deaf.log"
    supervisor = Supervisor(
        [Child("deaf", (sys.executable, "-c", program)), PAUSE], log_dir=tmp_path / "logs", grace_s=0.2
    )
    await supervisor.start()
    await wait_until("it is deaf", lambda: "deaf" in log.read_text("utf-8"))
    pids = list(supervisor.pids().values())

    async with asyncio.timeout(5):
        await supervisor.stop()

    await wait_until_gone(pids, within_s=1)
    assert supervisor.pids() == {}


async def test_waiting_ends_with_stop_and_giving_up_waiting_stops_no_child() -> None:
    async with Supervisor([PAUSE]) as supervisor:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(supervisor.wait_until_stopped(), 0.05)
        assert is_running(supervisor.pids()["pause"])
        waiting = asyncio.create_task(supervisor.wait_until_stopped())

    await waiting


async def test_output_and_environment_are_the_childs_own(tmp_path: Path) -> None:
    program = "import os, signal; print(os.environ['MARK'], flush=True); signal.pause()"
    child = Child("talks", (sys.executable, "-c", program), {"MARK": "blue"})

    async with Supervisor([child], log_dir=tmp_path):
        await wait_until("it has spoken", lambda: (tmp_path / "talks.log").read_text("utf-8") == "blue\n")

    assert (tmp_path / "talks.log").stat().st_mode & 0o777 == 0o600
