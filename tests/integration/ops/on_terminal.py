"""The command on a terminal: what a person would see of it, at a width."""

import asyncio
import fcntl
import os
import pty
import struct
import subprocess
import termios

from tests.integration.ops.command import command, environment
from tests.integration.stage import Stage


async def terminal_lines(stage: Stage, width: int, *arguments: str, **variables: str) -> list[str]:
    """Its lines, with whatever colours them."""
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
    said = bytearray()
    try:
        while piece := os.read(ours, 65_536):
            said += piece
    except OSError:  # it has closed its end
        pass
    finally:
        os.close(ours)
        _, errors = process.communicate(timeout=60)
    assert b"Traceback" not in errors
    assert process.returncode == 0, errors
    return said.decode().splitlines()
