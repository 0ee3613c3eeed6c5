"""Forked copies: a tool may fork, and its copy of this process must not live on as a second one.

What `subprocess` and `multiprocessing` fork never comes back to us: they run a program, or a function, and exit. A
plain `os.fork()` does: the copy returns from the tool, with the run's claim in its hands. It ends there. On the event
loop it ends as soon as it gives the loop control, which would go on with the chats of all runs over their connections.
"""

import asyncio
import os
import signal
import threading
import weakref
from collections.abc import Callable

_loops: "weakref.WeakSet[asyncio.AbstractEventLoop]" = weakref.WeakSet()
_child_hooks: list[Callable[[], None]] = []
_signal_masks: dict[int, set[signal.Signals | int]] = {}  # by thread: of those that fork just now
_STOP_SIGNALS = {signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP}
_hooks_registered = False


def exit_if_forked(pid: int) -> None:
    """Ends this process if it is a copy of the one that had this id when the package's code was called."""
    if os.getpid() != pid:
        os._exit(0)  # not by raising: a package, or a library under it, might catch that


def watch_loop_forks(loop: asyncio.AbstractEventLoop) -> None:
    """Code of a package is about to run on this loop."""
    if loop not in _loops:
        _loops.add(loop)
        _register_fork_hooks()


def add_child_hook(hook: Callable[[], None]) -> Callable[[], None]:
    """`drop` is called in each forked copy, in the thread that forked, and must wait for no lock: the thread
    that held it does not exist in the copy. Returns what takes it out again."""
    _child_hooks.append(hook)
    _register_fork_hooks()
    return lambda: _child_hooks.remove(hook)


def _register_fork_hooks() -> None:
    global _hooks_registered  # noqa: PLW0603 -- hooks of the interpreter cannot be taken out again: once in a process
    if not _hooks_registered:
        _hooks_registered = True
        os.register_at_fork(before=_block_signals, after_in_parent=_unblock_signals, after_in_child=_run_child_hooks)


def _block_signals() -> None:
    """A signal that comes before the copy has dropped our handlers would be taken by them, and be lost."""
    _signal_masks[threading.get_ident()] = signal.pthread_sigmask(signal.SIG_BLOCK, _STOP_SIGNALS)


def _unblock_signals() -> None:
    mask = _signal_masks.pop(threading.get_ident(), None)
    if mask is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _run_child_hooks() -> None:
    for loop in list(_loops):
        if getattr(loop, "_thread_id", None) == threading.get_ident():
            _exit_on_next_step(loop)
    for drop in _child_hooks:
        drop()
    _unblock_signals()


def _exit_on_next_step(loop: asyncio.AbstractEventLoop) -> None:
    """The loop is in the middle of its list of callbacks: the next one it takes ends the copy."""
    ready = loop._ready  # type: ignore[attr-defined]  # no API; of every loop of asyncio's own
    ready.clear()
    ready.append(asyncio.Handle(os._exit, (0,), loop))
