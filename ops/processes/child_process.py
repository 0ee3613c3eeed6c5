"""Starting and stopping child processes that cannot outlive us."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

WRAPPER_SCRIPT = Path(__file__).with_name("child_wrapper.py")
_MAX_LOG_BYTES = 10_000_000

DeathSignal = Literal["TERM", "KILL"]


def wrap_argv(argv: Sequence[str], *, death_signal: DeathSignal, watch: bool = False) -> list[str]:
    """`last_signal` is what the child gets when we die without stopping it; `watch` is for systems without prctl."""
    options = ["--signal", death_signal, *(["--watch"] if watch else [])]
    return [sys.executable, "-I", "-S", str(WRAPPER_SCRIPT), str(os.getpid()), *options, "--", *argv]


async def start_child(
    argv: Sequence[str],
    *,
    death_signal: DeathSignal,
    output: Path | None = None,
    env: Mapping[str, str] | None = None,
    inherited_fds: tuple[int, ...] = (),
    watch: bool = False,
) -> Process:
    """Call it on the event loop of the main thread: the tie is to the thread that forks (see tied_child)."""
    log = _open_log(output) if output else None
    try:
        return await asyncio.create_subprocess_exec(
            *wrap_argv(argv, death_signal=death_signal, watch=watch),
            stdin=DEVNULL,
            stdout=log,
            stderr=log,
            env=env,
            pass_fds=inherited_fds,
            # A group of its own: Ctrl-C on the terminal reaches only us, and we stop our children in order.
            start_new_session=True,
        )
    finally:
        if log is not None:
            os.close(log)


async def stop_child(process: Process, *, grace_s: float) -> None:
    """SIGTERM, then SIGKILL after the grace, also when we are cancelled meanwhile."""
    try:
        if process.returncode is None:
            # Not Process.terminate(): it polls, and may take the exit code away from asyncio's own watcher.
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGTERM)
            with suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), grace_s)
    finally:
        kill_child_group(process)
    await process.wait()


def kill_child_group(process: Process) -> None:
    """The child and whatever it left behind: its group is its own, so nobody else is in it."""
    with suppress(ProcessLookupError, PermissionError):  # macOS says "not permitted" about a group of zombies
        os.killpg(process.pid, signal.SIGKILL)


def _open_log(path: Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    # Only between two starts: the child writes to the file itself, we cannot roll it under its feet.
    if path.exists() and path.stat().st_size > _MAX_LOG_BYTES:
        path.replace(path.with_name(path.name + ".old"))
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
