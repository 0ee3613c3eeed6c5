"""Imports what roles need, then forks one for each line on stdin, and says on stdout who lives and who has ended.

It has a single thread, starts nothing and reads no settings: what a fork inherits is modules, and nothing else.
"""

import gc
import json
import os
import runpy
import select
import signal
import sys
import threading
from importlib import import_module
from typing import Any

EAGER = (
    "celery.apps.worker",
    "celery.bin.worker",
    "celery.concurrency.thread",
    "kombu.transport.redis",
    "triggers.role_context",
    "triggers.schedule.scheduler_role",
    "workers.process.worker",
    "workers.process.wakeup_handler",
    "workers.worker_role",
)


def write_message(**words: Any) -> None:
    os.write(1, json.dumps(words).encode() + b"\n")


def exec_role(request: dict[str, Any], log: int) -> None:
    os.chdir(request["folder"])
    nothing = os.open(os.devnull, os.O_RDONLY)
    for new, old in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(new, old)
    os.closerange(3, 256)
    os.environ.clear()
    os.environ.update(request["env"])
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    sys.argv = request["argv"]


def fork(request: dict[str, Any]) -> bool:
    """Whether this is the child now."""
    log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)  # before anybody looks into it
    pid = os.fork()
    if pid == 0:
        exec_role(request, log)
        return True
    os.close(log)
    write_message(pid=pid)
    LIVING.add(pid)
    return False


LIVING: set[int] = set()


def reap_children() -> None:
    for pid in tuple(LIVING):
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            LIVING.discard(pid)
            write_message(pid=pid, returncode=os.waitstatus_to_exitcode(status))


def run_forked_role() -> bool:
    """Returns in each child with True, and with False when nobody asks any more."""
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    unread = b""
    while True:
        readable, _, _ = select.select([0, woken], [], [])
        if woken in readable:
            os.read(woken, 4096)
            reap_children()
        if 0 in readable:
            chunk = os.read(0, 2**20)
            if not chunk:
                return False
            *lines, unread = (unread + chunk).split(b"\n")
            for line in lines:
                if fork(json.loads(line)):
                    return True


def main() -> None:
    product = runpy.run_path(sys.argv[1])
    product["bind_packages"]()
    for name in EAGER:
        import_module(name)
    assert threading.active_count() == 1, threading.enumerate()
    gc.freeze()
    if run_forked_role():
        runpy.run_path(sys.argv[0], run_name="__main__")
    else:
        for pid in LIVING:
            os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
