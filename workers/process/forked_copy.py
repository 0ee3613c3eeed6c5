"""A forked copy of a worker, as a tool may make one, is none: it drops what would let it act as one.

Its threads are gone already, the heartbeat's and the consumer's among them: it renews no lease and takes no wake-up.
What it inherits all the same is dropped here; that it ends when it comes back from its tool, `forked_copies` sees to.
"""

import signal
from collections.abc import Callable, Iterable
from contextlib import suppress

_SIGNALS = (signal.SIGTERM, signal.SIGQUIT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCHLD)


def drop_all(drops: Iterable[Callable[[], None]]) -> None:
    """In the copy. One that fails keeps no other from its work."""
    for drop in (reset_signals, *drops):
        with suppress(Exception):
            drop()


def reset_signals() -> None:
    """A worker's handlers ask it to drain, which nothing in a copy does: `multiprocessing.Process.terminate` would be
    waited for without end."""
    signal.set_wakeup_fd(-1)
    for each in _SIGNALS:
        signal.signal(each, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
