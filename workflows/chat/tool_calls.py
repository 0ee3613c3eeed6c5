"""Tool calls as they are told: each once, with its time and whether it failed, whoever made it."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from workflows.chat.errors import NeedsHuman
from workflows.chat.invoking import RaisedError
from workflows.chat.live import LiveTurn
from workflows.chat.tool_functions import ToolRefused
from workflows.spans import ToolSpan


@contextmanager
def measured(live: LiveTurn, tool: str, arguments: str = "{}") -> Iterator[ToolSpan]:
    """Around one call. One that its run cut off says nothing about the tool; to wait for a person is no failure."""
    began = time.monotonic()

    def answered(*, failed: bool) -> None:
        live.chat.on_tool_call(tool, time.monotonic() - began, failed)

    with live.chat.spans.tool_call(tool, arguments) as span:
        try:
            yield span
        except (ToolRefused, RaisedError) as error:
            span.failed(type(error.error if isinstance(error, RaisedError) else error).__name__)
            answered(failed=True)
            raise
        except NeedsHuman:
            answered(failed=False)
            raise
        answered(failed=False)
