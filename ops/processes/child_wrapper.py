"""Wrapper script that ends a program when its parent process dies; it imports none of our modules.

    python -I -S child_wrapper.py PARENT_PID [--watch] [--signal NAME] -- PROGRAM ARGUMENT…

On Linux the wrapper requests a signal from the kernel for its parent's death, then execs the program. Elsewhere, and
with --watch, it stays as the program's parent, forwards signals, and ends the program when its own parent is gone.

The kernel sends the signal when the *thread* that forked the wrapper ends, so the wrapper must be started from a thread
that lives as long as its process: the main thread, where the event loop of every role runs.
"""

import os
import select
import signal
import subprocess
import sys
import time

PR_SET_PDEATHSIG = 1
CANNOT_START = 127
_POLL_INTERVAL_S = 0.25
_KILL_TIMEOUT_S = 2.0


def main(arguments: list[str]) -> int:
    divider = arguments.index("--")
    options, argv = arguments[:divider], arguments[divider + 1 :]
    parent_pid = int(options[0])
    last_signal = signal.Signals["SIG" + (options[options.index("--signal") + 1] if "--signal" in options else "TERM")]
    try:
        if "--watch" not in options and _request_death_signal(last_signal):
            # If the parent died before the request, the kernel sends no signal.
            if os.getppid() != parent_pid:
                return CANNOT_START
            # Python ignores SIGPIPE, and exec would pass that on to the program.
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            os.execv(argv[0], argv)  # noqa: S606 -- no shell is wanted
        return _watch_parent(parent_pid, argv, last_signal)
    except OSError as error:
        sys.stderr.write(f"{argv[0]} cannot be started: {error.strerror}\n")
        return CANNOT_START


def _request_death_signal(number: int) -> bool:
    if sys.platform != "linux":
        return False
    try:
        import ctypes

        return bool(ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(number), 0, 0, 0) == 0)
    except (ImportError, OSError, AttributeError):
        return False


def _watch_parent(parent_pid: int, argv: list[str], last_signal: signal.Signals) -> int:
    received: list[int] = []
    wakeup_fd = _wake_on_signals(received)
    # Inherited file descriptors are meant for the program.
    child = subprocess.Popen(argv, close_fds=False)
    kill_at = None
    while child.poll() is None:
        while received:
            child.send_signal(received.pop(0))
        if os.getppid() != parent_pid:
            if kill_at is None:
                kill_at = time.monotonic() + _KILL_TIMEOUT_S
                child.send_signal(last_signal)
            elif time.monotonic() > kill_at:
                child.kill()
        if select.select([wakeup_fd], [], [], _POLL_INTERVAL_S)[0]:
            os.read(wakeup_fd, 4096)
    return _exit_like(child.returncode)


def _wake_on_signals(received: list[int]) -> int:
    """Append signals to forward to `received`; return a descriptor that is readable after each signal."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda received_number, _frame: received.append(received_number))
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return reader


def _exit_like(code: int) -> int:
    """Die by the signal that killed the program, as the supervisor logs it."""
    if code >= 0:
        return code
    if -code not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
    return 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
