"""Tool calls as they are told: each once, with its time and whether it failed, whoever made it.

Those that may have changed something are noted in their turn as well: if the turn is not finished, the note is all
that is left of them.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from workflows.chat.errors import NeedsHuman
from workflows.chat.invoking import PackageCodeError
from workflows.chat.journal import CallStep
from workflows.chat.live import NotedToolCall, LiveTurn
from workflows.chat.tool_functions import ToolFunction, ToolRefused
from workflows.spans import ToolSpan


@contextmanager
def measure_call(live: LiveTurn, tool: ToolFunction, arguments: str = "{}") -> Iterator[ToolSpan]:
    """Around one call. One that its run cut off says nothing about the tool; to wait for a person is no failure."""
    began = time.monotonic()
    noted = live.begin_call(tool.name, arguments) if tool.has_effects else NotedToolCall(tool.name)

    def note_answer(*, failed: bool) -> None:
        noted.state = "failed" if failed else "done"
        live.chat.on_tool_call(tool.name, time.monotonic() - began, failed)

    with live.chat.spans.tool_call(tool.name, arguments) as span:
        try:
            yield span
        except (ToolRefused, PackageCodeError) as error:
            span.record_error(type(error.error if isinstance(error, PackageCodeError) else error).__name__)
            note_answer(failed=True)
            raise
        except NeedsHuman:
            note_answer(failed=False)
            noted.state = "asked"
            raise
        note_answer(failed=False)


def note_replayed_call(live: LiveTurn, tool: ToolFunction, arguments: str, step: CallStep) -> None:
    """Of a call that another taking of this turn has made, and that is not made again."""
    if tool.has_effects:
        live.begin_call(tool.name, arguments).state = "failed" if step.failed else "done"
