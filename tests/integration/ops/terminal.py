"""A dialogue with a command in a pseudo-terminal."""

import asyncio
import fcntl
import os
import pty
import signal
import struct
import subprocess
import termios
import threading
import time
from contextlib import suppress

import psutil

from tests.integration.ops.command import command, environment
from tests.integration.stage import Stage


def terminal_dialogue(stage: Stage, answer: str | None, *arguments: str) -> str:
    """Return the screen and, at its end, the exit code; without answers, interrupt the command once."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(command(*arguments), env=environment(stage), stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    too_late = threading.Timer(60, process.kill)
    too_late.start()
    seen = b""
    while b"[y/N]" not in seen:
        seen += os.read(ours, 4096)
    if answer is None:
        while psutil.Process(process.pid).status() != psutil.STATUS_SLEEPING:  # the prompt is printed before it reads
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
    else:
        os.write(ours, answer.encode() + b"\n")
    with suppress(OSError):  # the terminal ends with its last process
        while more := os.read(ours, 4096):
            seen += more
    os.close(ours)
    too_late.cancel()
    return f"{seen.decode()}{process.wait(30)}"


async def terminal_lines(stage: Stage, width: int, *arguments: str, **variables: str) -> list[str]:
    """Return the lines, with their colour codes."""
    return await asyncio.to_thread(_lines, stage, width, arguments, variables)


def _lines(stage: Stage, width: int, arguments: tuple[str, ...], variables: dict[str, str]) -> list[str]:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    usual = {"TERM": "xterm-256color", "LANG": "C.UTF-8"}
    process = subprocess.Popen(
        command(*arguments),
        env={**environment(stage), **usual, **variables},
        cwd=stage.folder,
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=subprocess.PIPE,
    )
    os.close(theirs)
    screen = bytearray()
    try:
        while piece := os.read(ours, 65_536):
            screen += piece
    except OSError:  # the other end is closed
        pass
    finally:
        os.close(ours)
        _, errors = process.communicate(timeout=60)
    assert b"Traceback" not in errors
    assert process.returncode == 0, errors
    return screen.decode().splitlines()
