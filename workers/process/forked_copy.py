"""Forked copies of a worker, as tools may make them: none may act as a worker.

A copy has no threads, so no heartbeat and no consumer: it renews no lease and takes no wake-up. What it does inherit is
dropped here. `forked_copies` ends the copy when it returns from its tool.
"""

import signal
from collections.abc import Callable, Iterable
from contextlib import suppress

_SIGNALS = (signal.SIGTERM, signal.SIGQUIT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCHLD)


def drop_all(drops: Iterable[Callable[[], None]]) -> None:
    """Runs all drops in the copy. A failing one does not stop the others."""
    for drop in (reset_signals, *drops):
        with suppress(Exception):
            drop()


def reset_signals() -> None:
    """Resets the signal handlers.

    Those of a worker start a drain, which a copy never finishes: `multiprocessing.Process.terminate` would wait for
    ever.
    """
    signal.set_wakeup_fd(-1)
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
