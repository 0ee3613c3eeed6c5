"""Tool calls as they are measured: each once, with its time and whether it failed, whoever made it."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from workflows.chat.errors import NeedsHuman
from workflows.chat.invoking import RaisedError
from workflows.chat.live import LiveTurn
from workflows.chat.tool_functions import ToolRefused


@contextmanager
def measured(live: LiveTurn, tool: str) -> Iterator[None]:
    """Around one call. One that its run cut off says nothing about the tool; to wait for a person is no failure."""
    began = time.monotonic()

    def answered(*, failed: bool) -> None:
        live.chat.on_tool_call(tool, time.monotonic() - began, failed)

    try:
        yield
    except (ToolRefused, RaisedError):
        answered(failed=True)
        raise
    except NeedsHuman:
        answered(failed=False)
        raise
    answered(failed=False)
