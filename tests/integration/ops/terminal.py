"""A dialogue with a command in a pseudo-terminal, as a person has it."""

import os
import pty
import signal
import subprocess
import threading
import time
from contextlib import suppress

import psutil

from tests.integration.ops.command import command, environment
from tests.integration.stage import Stage


def dialogue(stage: Stage, answer: str | None, *arguments: str) -> str:
    """What is seen, with the exit code at its end. Without an answer it is interrupted, once."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(command(*arguments), env=environment(stage), stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    too_late = threading.Timer(60, process.kill)
    too_late.start()
    seen = b""
    while b"[y/N]" not in seen:
        seen += os.read(ours, 4096)
    if answer is None:
        while psutil.Process(process.pid).status() != psutil.STATUS_SLEEPING:  # it has asked, and does not listen yet
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
    else:
        os.write(ours, answer.encode() + b"\n")
    with suppress(OSError):  # the terminal is gone with its last process
        while more := os.read(ours, 4096):
            seen += more
    os.close(ours)
    too_late.cancel()
    return f"{seen.decode()}{process.wait(30)}"
