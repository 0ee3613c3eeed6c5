"""The product as a user runs it: the installed command, in a directory of the test."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

COMMAND = str(Path(sys.executable).parent / "unattended")


def environment(**changes: str) -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("UNATTENDED_")}
    return {**clean, **changes}


def unattended(
    *arguments: str, cwd: Path, env: Mapping[str, str] | None = None, timeout_s: float = 100
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [COMMAND, *arguments],
        cwd=cwd,
        env=env or environment(),
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def as_json(*arguments: str, cwd: Path, env: Mapping[str, str] | None = None) -> Any:
    done = unattended(*arguments, "--json", cwd=cwd, env=env)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@contextmanager
def started_command(
    *arguments: str, cwd: Path, env: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Start the command in the background; its output goes to cwd/output."""
    with (cwd / "output").open("ab") as output:
        process = subprocess.Popen(
            [COMMAND, *arguments], cwd=cwd, env=env or environment(), stdout=output, stderr=output
        )
    try:
        yield process
    finally:
        family = descendants(process.pid)
        if process.poll() is None:
            process.terminate()
            process.wait(60)
        for each in family:
            if is_alive(each):
                each.kill()


def descendants(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def is_alive(process: psutil.Process) -> bool:
    """Whether a process lives; a zombie is dead, and waits for its parent only."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def wait_until(what: str, condition: Callable[[], Any], *, within_s: float = 60, every_s: float = 0.05) -> Any:
    give_up_at = time.monotonic() + within_s
    while not (value := condition()):
        assert time.monotonic() < give_up_at, f"not within {within_s} s: {what}"
        time.sleep(every_s)
    return value


def one_line(stderr: str) -> str:
    """Check that a user's mistake is reported in one line."""
    lines = stderr.strip().splitlines()
    assert len(lines) == 1, stderr
    return lines[0]
