"""The live view of `unattended run`: each turn as it is committed, then the outcome and the totals."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, TextIO, cast

from rich.control import Control
from rich.segment import ControlType
from rich.text import Text

from ops.cli.output import make_console
from ops.presenters.amounts import format_exact_usd, pluralize
from ops.presenters.printable_text import to_printable
from ops.presenters.turn_lines import BAD, DIM, GOOD, WARNING, Line, error_lines, turn_lines
from workers.local_run.report import RunReport, TurnReport
from workers.store.run import RunState

MAX_TEXT = 4_000
# Moves to the first column, and erases the line.
_CLEAR_LINE = Control(ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, 2))


class LiveView:
    """Prints the run to `out`, as plain lines when piped.

    Notes go to `note` instead, so that a pipe gets the run only.
    """

    def __init__(self, out: TextIO, *, note: Callable[[str], None], verbose: bool) -> None:
        file = cast("TextIO", _PipeSafeFile(out))
        console = make_console(file=file, highlight=False, markup=False, emoji=False, soft_wrap=True)
        self._console, self._note, self._verbose = console, note, verbose
        # Only a terminal can erase a line; a pipe may have colours (FORCE_COLOR), so they prove nothing.
        self._can_erase = out.isatty() and not console.is_dumb_terminal
        self._has_placeholder = False  # the line that names the agent whose turn is in progress

    def speaking(self, agent: str) -> None:
        if self._can_erase:
            self._print(f"… {to_printable(agent)}", style=DIM, end="")
            self._has_placeholder = True

    def note(self, text: str) -> None:
        self._clear()
        self._note(to_printable(text))

    def turn(self, number: int, turn: TurnReport) -> None:
        self._clear()
        text = turn.text if len(turn.text) <= MAX_TEXT else f"{turn.text[:MAX_TEXT]}… ({len(turn.text)} characters)"
        self._lines(turn_lines(number, replace(turn, text=text)))
        self._lines(error_lines(turn.errors, tracebacks=self._verbose))

    def end(self, report: RunReport) -> None:
        self._clear()
        shown_errors = sum(len(turn.errors) for turn in report.turns)
        self._lines(error_lines(report.errors[shown_errors:], tracebacks=self._verbose))
        outcome, is_waiting = report.outcome, report.state is RunState.NEEDS_HUMAN
        style = WARNING if is_waiting or outcome.stranded else GOOD if report.succeeded else BAD
        self._print("")
        kind = "" if outcome.kind.value == report.state.value else f", {outcome.kind.value}"  # needs_human, cancelled
        self._print(f"{report.state.value}{kind}: {to_printable(outcome.reason[:MAX_TEXT])}", style=style)
        error = outcome.error
        if error is not None and error.agent and not is_waiting:
            self._print(f"  {error.type} of {to_printable(error.agent)} in turn {error.turn}", style=style)
        self._print(totals(report), style=DIM)

    def _lines(self, lines: Iterable[Line]) -> None:
        for style, line in lines:
            self._print(line, style=style)

    def _clear(self) -> None:
        if self._has_placeholder:
            self._has_placeholder = False
            self._console.control(_CLEAR_LINE)

    def _print(self, line: str, *, style: str = "", end: str = "\n") -> None:
        self._console.print(Text(line, style=style), end=end)


class _PipeSafeFile:
    """Drops output once the reader of a pipe is gone; rich would end the process."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._gone = False

    def write(self, text: str) -> int:
        try:
            if not self._gone:
                self._out.write(text)
        except BrokenPipeError:
            self._gone = True
        return len(text)

    def flush(self) -> None:
        try:
            if not self._gone:
                self._out.flush()
        except BrokenPipeError:
            self._gone = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._out, name)


def totals(report: RunReport) -> str:
    calls = report.usage
    tokens_in, tokens_out = sum(call.input_tokens for call in calls), sum(call.output_tokens for call in calls)
    priced = [call.cost_usd for call in calls if call.cost_usd is not None]
    cost = f", USD {format_exact_usd(sum(priced))}" if priced else ""
    failed = sum(not call.ok for call in calls)
    failed_text = f" ({failed} failed)" if failed else ""
    usage = f"{pluralize(len(calls), 'model call')}{failed_text}, {tokens_in} tokens in, {tokens_out} out{cost}"
    return f"{pluralize(len(report.turns), 'turn')}, {usage}, {report.duration_s:.2f} s"
