"""The pool: the threads of Celery, which also wake the consumer.

The consumer acknowledges a message and fetches the next one in its own thread. It sleeps in poll() until the broker
sends something or a timer fires, up to ten seconds. So when a thread takes a task or becomes free, a byte in a pipe
wakes it.
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
        """Registers after each connect: Celery calls it with an emptied loop."""
        if self._pipe is None:
            self._pipe = os.pipe()
            for end in self._pipe:
                os.set_blocking(end, False)
        loop.add_reader(self._pipe[0], self._drain)

    @override
    def on_apply(self, *args: Any, accept_callback: Callable[..., Any] | None = None, **kwargs: Any) -> Any:
        def on_accepted(*arguments: Any) -> None:
            if accept_callback is not None:
                accept_callback(*arguments)
                self._wake(None)  # to send the acknowledgement that the callback has queued in the consumer

        kwargs["accept_callback"] = on_accepted
        result = super().on_apply(*args, **kwargs)
        # Not a task signal of Celery: those come before Celery counts the thread as free.
        result.f.add_done_callback(self._wake)
        return result

    def _wake(self, _: Any) -> None:
        if self._pipe is not None:
            try:
                os.write(self._pipe[1], b".")
            except BlockingIOError:
                return  # full of bytes that will wake it anyway

    def _drain(self) -> None:
        if self._pipe is not None:
            try:
                os.read(self._pipe[0], 65_536)
            except BlockingIOError:
                return
