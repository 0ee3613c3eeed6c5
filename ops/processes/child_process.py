"""Child processes that cannot outlive their parent: start, stop, kill."""

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
    """Wrap a command so that its process gets `death_signal` when we die; `watch` is for systems without prctl."""
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
    """Start a child; call it on the main thread, as the child dies with the thread that forks it."""
    log = _open_log(output) if output else None
    try:
        return await asyncio.create_subprocess_exec(
            *wrap_argv(argv, death_signal=death_signal, watch=watch),
            stdin=DEVNULL,
            stdout=log,
            stderr=log,
            env=env,
            pass_fds=inherited_fds,
            # In its own group Ctrl-C on the terminal does not reach the child, and we stop children in order.
            start_new_session=True,
        )
    finally:
        if log is not None:
            os.close(log)


async def stop_child(process: Process, *, grace_s: float) -> None:
    """Send SIGTERM, and SIGKILL after the grace, also if this task is cancelled."""
    try:
        if process.returncode is None:
            # Not Process.terminate(), which polls and may take the exit code from asyncio's child watcher.
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGTERM)
            with suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), grace_s)
    finally:
        kill_child_group(process)
    await process.wait()


def kill_child_group(process: Process) -> None:
    """Kill the child and its descendants, which share a group of their own."""
    with suppress(ProcessLookupError, PermissionError):  # macOS raises PermissionError for a group of zombies
        os.killpg(process.pid, signal.SIGKILL)


def _open_log(path: Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    # Rotate only between two starts, as the child writes to the file itself.
    if path.exists() and path.stat().st_size > _MAX_LOG_BYTES:
        path.replace(path.with_name(path.name + ".old"))
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
