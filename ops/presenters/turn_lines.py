"""A turn as lines: agent, tool calls, text, context changes, errors and the next agent."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ops.presenters.printable_text import to_printable

if TYPE_CHECKING:
    from workers.local_run.report import TurnReport

MAX_VALUE_CHARACTERS = 200
GOOD, WARNING, BAD, DIM = "green", "yellow", "red", "dim"
_TRACEBACK_FRAME = re.compile(r'^ *File "(.+)", line (\d+), in (.+)$', re.MULTILINE)

Line = tuple[str, str]  # style and text


def turn_lines(number: int, turn: "TurnReport") -> Iterable[Line]:
    tokens = f"{turn.tokens.get('input', 0)} tokens in, {turn.tokens.get('output', 0)} out"
    head = f"{number}. {to_printable(turn.agent)} → {to_printable(turn.handoff or 'end')}"
    yield "bold", f"{head}  ({tokens}, {turn.duration_s:.2f} s)"
    for call in turn.tool_calls:
        result = "" if call.result is None else f" → {format_value(call.result)}"
        yield (
            BAD if call.failed else "cyan",
            f"   calls {to_printable(call.name)}({format_value(call.arguments)}){result}",
        )
    for line in turn.text.splitlines():
        yield "", f"   {to_printable(line)}"
    for name, value in turn.context_changes.items():
        yield DIM, f"   {to_printable(name)} = {format_value(value)}"


def error_lines(errors: Iterable[Mapping[str, Any]], *, tracebacks: bool = False) -> Iterable[Line]:
    """Yield errors of the package's own code, each with its place in that code."""
    for error in errors:
        location = error_location(error)
        suffix = "" if location is None else f" ({location})"
        yield BAD, to_printable(f"   ! {error['where']}: {error['type']}: {error['message']}{suffix}")
        if tracebacks:
            for line in str(error["traceback"]).splitlines():
                yield DIM, f"     {to_printable(line)}"


def error_location(error: Mapping[str, Any]) -> str | None:
    """Return the place of an error in a run's record; records of older versions have it only in the traceback."""
    if "place" in error:
        place: str | None = error["place"]
        return place
    frames = _TRACEBACK_FRAME.findall(str(error["traceback"]))
    return "{}:{}, in {}".format(*frames[-1]) if frames else None


def format_value(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return to_printable(
        text if len(text) <= MAX_VALUE_CHARACTERS else f"{text[:MAX_VALUE_CHARACTERS]}… ({len(text)} characters)"
    )
