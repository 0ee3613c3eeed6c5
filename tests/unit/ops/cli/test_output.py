"""Tables, JSON and error lines, on a terminal and in a pipe."""

import io
import json
from collections.abc import Callable
from contextlib import redirect_stdout
from typing import Any

import pytest
from pymongo.errors import AutoReconnect, OperationFailure

from ops.cli.error_messages import describe_error
from ops.cli.output import print_json, print_json_line, print_table

ROWS = [["…7T4YC3", "[/b][red]", "tab\there \x1b[31m", "needs_human"]]


class FakeTerminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def show() -> None:
    print_table("Runs", ["run", "app", "note", "state"], ROWS, unfolded={"run", "state"})


def shown_on_a_terminal(monkeypatch: pytest.MonkeyPatch, no_color: str, width: int = 40) -> str:
    for name, value in {"TERM": "xterm", "COLUMNS": str(width), "NO_COLOR": no_color}.items():
        monkeypatch.setenv(name, value)
    with redirect_stdout(FakeTerminal()) as terminal:
        show()
    return terminal.getvalue()


def test_a_table_shows_brackets_and_lets_nothing_steer_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = shown_on_a_terminal(monkeypatch, no_color="1")

    lines = plain.splitlines()[2:]
    assert "\x1b" not in plain
    assert "[/b][red]" in "".join(line[9:17].strip() for line in lines)
    assert lines[0].startswith("…7T4YC3")
    assert lines[0].rstrip().endswith("needs_human")
    assert all(len(line) <= 40 for line in lines)


def test_a_table_is_bold_where_colours_are_welcome(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b[1m" in shown_on_a_terminal(monkeypatch, no_color="")


def test_where_columns_would_be_too_narrow_each_row_gets_its_own_lines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = shown_on_a_terminal(monkeypatch, no_color="1", width=39)

    assert [line.split() for line in plain.splitlines()] == [
        ["Runs"],
        [],
        ["run", "…7T4YC3"],
        ["app", "[/b][red]"],
        ["note", "tab\\there", "\\x1b[31m"],
        ["state", "needs_human"],
    ]


def test_a_piped_table_has_one_line_for_each_row(capsys: pytest.CaptureFixture[str]) -> None:
    show()

    assert capsys.readouterr().out == ("run\tapp\tnote\tstate\n…7T4YC3\t[/b][red]\ttab\\there \\x1b[31m\tneeds_human\n")


@pytest.mark.parametrize("printed", [print_json, print_json_line])
def test_json_is_json_whatever_number_an_input_holds(
    capsys: pytest.CaptureFixture[str], printed: Callable[[Any], None]
) -> None:
    printed({"ä": [float("nan"), float("inf"), 1.5]})

    def no_constants(name: str) -> None:
        raise AssertionError(name)

    text = capsys.readouterr().out
    assert json.loads(text, parse_constant=no_constants) == {"ä": [None, None, 1.5]}
    assert "ä" in text


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            OperationFailure("Authentication failed.", 18, {"errmsg": "x", "$clusterTime": 1}),
            "MongoDB refuses: Authentication failed; run `unattended doctor`",
        ),
        (
            AutoReconnect("127.0.0.1:1: connection refused, Topology Description: <TopologyDescription id: 6>"),
            "MongoDB does not answer: 127.0.0.1:1: connection refused; run `unattended doctor`",
        ),
    ],
)
def test_an_error_of_mongodb_is_cut_to_its_point(error: Exception, text: str) -> None:
    assert describe_error(error) == (text, 1)
