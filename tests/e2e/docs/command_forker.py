"""The command without its import time: one process imports everything, and forks for each `unattended` of a page.

Started with a path, it listens there; `COMMAND` is the program on the reader's PATH. A fork has the caller's arguments,
directory, environment, stdin, stdout and stderr, and only modules of this process. Long-running commands, such as
`unattended up`, are started normally.
"""

import gc
import json
import os
import runpy
import socket
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
REAL = Path(sys.executable).parent / "unattended"
EAGER = (
    "workers.process.wakeup_handler",
    "workers.local_run.run_package",
    "ops.doctor.check_runner",
    "triggers.role_context",
    "triggers.schedule.schedule_kind",
)
STAY = ("up", "demo", "gateway", "scheduler", "watcher", "worker", "exporter")
COMMAND = """#!{python} -ISE
import json, os, socket, sys
if len(sys.argv) > 1 and sys.argv[1] in {stay!r}:
    os.execv({real!r}, [{real!r}, *sys.argv[1:]])
with socket.socket(socket.AF_UNIX) as forker:
    forker.connect({path!r})
    socket.send_fds(forker, [b"{{"], [0, 1, 2])
    asked = {{"argv": sys.argv, "folder": os.getcwd(), "env": dict(os.environ)}}
    forker.sendall(json.dumps(asked)[1:].encode())
    forker.shutdown(socket.SHUT_WR)
    sys.exit(int(forker.recv(8) or 70))
"""


def command(path: Path) -> str:
    return COMMAND.format(python=sys.executable, stay=STAY, real=str(REAL), path=str(path))


def exec_command(request: dict[str, Any], streams: list[int]) -> None:
    os.chdir(request["folder"])
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(request["env"])
    sys.argv = request["argv"]
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", buffering=1)  # noqa: SIM115 -- they live as long as the process


def answer(caller: socket.socket) -> bool:
    """Return True in the fork that becomes the command."""
    message, streams, _, _ = socket.recv_fds(caller, 65_536, 3)
    while chunk := caller.recv(65_536):
        message += chunk
    if os.fork():
        for stream in streams:
            os.close(stream)
        return False
    exec_command(json.loads(message), streams)
    return True


def serve(path: str) -> socket.socket:
    """Serve requests; return in each fork with the connection that reports its end."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen(16)
        while True:
            caller, _ = listening.accept()
            if answer(caller):
                return caller
            caller.close()
            reap_children()


def end_of(command: Callable[[], None]) -> int:
    try:
        command()
    except SystemExit as over:
        if isinstance(over.code, str):
            sys.stderr.write(f"{over.code}\n")
        return over.code if isinstance(over.code, int) else int(over.code is not None)
    return 0


def reap_children() -> None:
    """Report exit codes of ended forks."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def main() -> None:
    product = runpy.run_path(str(ROOT / "unattended.py"))
    product["bind_packages"]()
    for name in EAGER:
        import_module(name)
    from ops.cli.command import DeferredCommand
    from ops.cli.main import cli

    for each in cli.commands.values():
        if isinstance(each, DeferredCommand):
            each.load()
    gc.freeze()
    caller = serve(sys.argv[1])
    code = end_of(product["main"])
    sys.stdout.flush()
    caller.sendall(str(code % 256).encode())
    os._exit(0)  # a normal exit, with all modules, takes longer than most commands


if __name__ == "__main__":
    main()
