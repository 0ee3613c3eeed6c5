"""Forked copies: a copy of this process that a tool forked must not live on.

`subprocess` and `multiprocessing` are safe: their children run a program or a function, and exit. After a plain
`os.fork()` the copy returns from the tool and holds the run's claim, so it ends there. On the event loop it ends at the
loop's next step, which would otherwise continue the chats of all runs over their connections.
"""

import asyncio
import os
import signal
import threading
import weakref
from collections.abc import Callable

_loops: "weakref.WeakSet[asyncio.AbstractEventLoop]" = weakref.WeakSet()
_child_hooks: list[Callable[[], None]] = []
_signal_masks: dict[int, set[signal.Signals | int]] = {}  # by thread, during a fork
_STOP_SIGNALS = {signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP}
_hooks_registered = False


def exit_if_forked(pid: int) -> None:
    """Ends this process if it is a copy.

    `pid` is the process id from before the package's code was called."""
    if os.getpid() != pid:
        os._exit(0)  # no exception: a package, or a library under it, might catch one


def watch_loop_forks(loop: asyncio.AbstractEventLoop) -> None:
    """Registers a loop on which package code is about to run."""
    if loop not in _loops:
        _loops.add(loop)
        _register_fork_hooks()


def add_child_hook(hook: Callable[[], None]) -> Callable[[], None]:
    """Calls `hook` in each forked copy, in the thread that forked.

    The hook must wait for no lock: the thread that held it does not exist in the copy. Returns a function that removes
    the hook."""
    _child_hooks.append(hook)
    _register_fork_hooks()
    return lambda: _child_hooks.remove(hook)


def _register_fork_hooks() -> None:
    global _hooks_registered  # noqa: PLW0603 -- fork hooks cannot be removed, so they are registered once per process
    if not _hooks_registered:
        _hooks_registered = True
        os.register_at_fork(before=_block_signals, after_in_parent=_unblock_signals, after_in_child=_run_child_hooks)


def _block_signals() -> None:
    """Blocks stop signals until the copy has dropped our handlers; else they are lost."""
    _signal_masks[threading.get_ident()] = signal.pthread_sigmask(signal.SIG_BLOCK, _STOP_SIGNALS)


def _unblock_signals() -> None:
    mask = _signal_masks.pop(threading.get_ident(), None)
    if mask is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _run_child_hooks() -> None:
    for loop in list(_loops):
        if getattr(loop, "_thread_id", None) == threading.get_ident():
            _exit_on_next_step(loop)
    for hook in _child_hooks:
        hook()
    _unblock_signals()


def _exit_on_next_step(loop: asyncio.AbstractEventLoop) -> None:
    """Replaces the loop's remaining callbacks by one that ends the copy."""
    ready = loop._ready  # type: ignore[attr-defined]  # no API; every loop of asyncio's own has it
    ready.clear()
    ready.append(asyncio.Handle(os._exit, (0,), loop))
