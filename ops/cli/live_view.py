"""The live view: each turn as it is committed, and at the end what came of the run. Plain lines when piped."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, TextIO, cast

from rich.control import Control
from rich.segment import ControlType
from rich.text import Text

from ops.cli.output import make_console
from ops.presenters.amounts import format_exact_usd
from ops.presenters.printable_text import to_printable
from ops.presenters.turn_lines import BAD, DIM, GOOD, Line, error_lines, turn_lines
from workers.local_run.report import RunReport, TurnReport
from workers.store.run import RunState

MAX_TEXT = 4_000
# Back to the first column, and away with what stands in the line.
_CLEAR_LINE = Control(ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, 2))


class LiveView:
    """`note` goes to people beside the output: what is piped stays the run alone."""

    def __init__(self, out: TextIO, *, note: Callable[[str], None], verbose: bool) -> None:
        file = cast("TextIO", _PatientFile(out))
        console = make_console(file=file, highlight=False, markup=False, emoji=False, soft_wrap=True)
        self._console, self._note, self._verbose = console, note, verbose
        # Else what was written could not be taken away again; a pipe may be in colours, and still is none.
        self._can_erase = out.isatty() and not console.is_dumb_terminal
        self._waiting = False

    def speaking(self, agent: str) -> None:
        if self._can_erase:
            self._print(f"… {to_printable(agent)}", style=DIM, end="")
            self._waiting = True

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
        shown_already = sum(len(turn.errors) for turn in report.turns)
        self._lines(error_lines(report.errors[shown_already:], tracebacks=self._verbose))
        outcome, asks = report.outcome, report.state is RunState.NEEDS_HUMAN
        style = "yellow" if asks or outcome.stranded else GOOD if report.succeeded else BAD
        self._print("")
        kind = "" if outcome.kind.value == report.state.value else f", {outcome.kind.value}"  # needs_human, cancelled
        self._print(f"{report.state.value}{kind}: {to_printable(outcome.reason[:MAX_TEXT])}", style=style)
        error = outcome.error
        if error is not None and error.agent and not asks:
            self._print(f"  {error.type} of {to_printable(error.agent)} in turn {error.turn}", style=style)
        self._print(totals(report), style=DIM)

    def _lines(self, lines: Iterable[Line]) -> None:
        for style, line in lines:
            self._print(line, style=style)

    def _clear(self) -> None:
        if self._waiting:
            self._waiting = False
            self._console.control(_CLEAR_LINE)

    def _print(self, line: str, *, style: str = "", end: str = "\n") -> None:
        self._console.print(Text(line, style=style), end=end)


class _PatientFile:
    """Ignores a reader that has gone, as `head` does after ten lines. Rich would end the process."""

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
    tokens_in, tokens_out = sum(each.input_tokens for each in calls), sum(each.output_tokens for each in calls)
    priced = [each.cost_usd for each in calls if each.cost_usd is not None]
    cost = f", USD {format_exact_usd(sum(priced))}" if priced else ""
    failed = sum(not each.ok for each in calls)
    not_ok = f" ({failed} failed)" if failed else ""
    spent = f"{_counted(len(calls), 'model call')}{not_ok}, {tokens_in} tokens in, {tokens_out} out{cost}"
    return f"{_counted(len(report.turns), 'turn')}, {spent}, {report.duration_s:.2f} s"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' if number != 1 else ''}"
