"""Commands whose standard output is closed, full or read no further."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ops.cli.main import run

GOOD, SAID_NO, WRONG_USE = 0, 1, 2
Said = tuple[int, str, str]


@pytest.fixture
def unattended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> Callable[..., Said]:
    """Where nothing runs: the exit code, standard output and standard error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("ops.cli.role_commands.configure_logging", lambda **_: None)  # this process goes on

    def said(*arguments: str) -> Said:
        monkeypatch.setattr(sys, "argv", ["unattended", *arguments])
        with pytest.raises(SystemExit) as ended:
            run()
        out, err = capfd.readouterr()
        return int(ended.value.code or 0), out, err

    return said


@pytest.mark.parametrize("arguments", ["--help", "packages schema"])
def test_a_reader_that_has_had_enough_is_no_error(arguments: str) -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    command = [sys.executable, "-c", "from ops.cli.main import run; run()", *arguments.split()]
    done = subprocess.run(command, stdout=theirs, stderr=subprocess.PIPE, text=True, check=False, timeout=60)
    os.close(theirs)

    assert (done.returncode, done.stderr) == (GOOD, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_is_reported_in_one_line() -> None:
    command = [sys.executable, "-c", "from ops.cli.main import run; run()", "packages", "schema"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=60)

    assert (done.returncode, done.stderr) == (
        SAID_NO,
        "unattended: standard output cannot be written: No space left on device\n",
    )


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_a_closed_output_exits_quietly(closed: str) -> None:
    """As some supervisors start a command."""
    line = f'exec "{sys.executable}" -c "from ops.cli.main import run; run()" packages list {closed}'
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False, timeout=60)

    assert (done.returncode, done.stderr) == (GOOD, "")
