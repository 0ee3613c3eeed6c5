"""The pool: Celery's threads, which also wake the consumer when one takes a task and when one is free again.

The consumer acknowledges a message, and asks for the next one, in its own thread, and sleeps in poll() until the
broker says something or a timer of its own fires, up to ten seconds. A byte in a pipe wakes it.
"""

import os
from collections.abc import Callable
from typing import Any

from celery.concurrency.thread import TaskPool
from typing_extensions import override


class WakeupThreadPool(TaskPool):
    _pipe: tuple[int, int] | None = None

    @override
    def register_with_event_loop(self, loop: Any) -> None:
        """Called again after every reconnect, with an emptied loop."""
        if self._pipe is None:
            self._pipe = os.pipe()
            for end in self._pipe:
                os.set_blocking(end, False)
        loop.add_reader(self._pipe[0], self._drain)

    @override
    def on_apply(self, *args: Any, accept_callback: Callable[..., Any] | None = None, **kwargs: Any) -> Any:
        def accepted(*arguments: Any) -> None:
            if accept_callback is not None:
                accept_callback(*arguments)
                self._wake(None)  # to send the acknowledgement that the callback has left with the consumer

        kwargs["accept_callback"] = accepted
        result = super().on_apply(*args, **kwargs)
        # Not a signal of the task: those come before Celery has taken it off the list that counts as busy.
        result.f.add_done_callback(self._wake)
        return result

    def _wake(self, _: Any) -> None:
        if self._pipe is not None:
            try:
                os.write(self._pipe[1], b".")
            except BlockingIOError:
                return  # full of wake-ups that nobody has read yet: one more says nothing new

    def _drain(self) -> None:
        if self._pipe is not None:
            try:
                os.read(self._pipe[0], 65_536)
            except BlockingIOError:
                return
