"""Progress and colours: on a terminal only, unless requested."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios

import pytest

ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
COUNTS = """
from ops.cli.progress import show_progress
for number in (5, 100, None):
    with show_progress("working", number) as report:
        report(50, 1200) if number is None else report(number // 2)
        print(number)
"""
VERDICT = """
from pathlib import Path
from types import SimpleNamespace
from ops.cli.packages.verdicts import print_verdict
from workflows.package.readers.entry_counts import EntryCounts
from workflows.package.findings import Finding
found = SimpleNamespace(name="P", verdict="refused", obstacles=(), counts=EntryCounts(), folder=Path("."),
                        findings=(Finding("error", "c", "agents.yaml", "", "is missing"),))
print_verdict(found, Path("P"))
"""


def run_on_terminal(code: str, **variables: str) -> tuple[str, str]:
    """Run with stdout and stderr on terminals of their own; return what each received."""
    pairs = [pty.openpty() for _ in range(2)]
    for _, theirs in pairs:
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 120, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        env=environment(TERM="xterm-256color") | variables,
        stdin=subprocess.DEVNULL,
        stdout=pairs[0][1],
        stderr=pairs[1][1],
    )
    output = []
    for ours, theirs in pairs:
        os.close(theirs)
        text = bytearray()
        try:
            while piece := os.read(ours, 65_536):
                text += piece
        except OSError:  # the other end is closed
            pass
        os.close(ours)
        output.append(text.decode())
    assert process.wait(60) == 0
    return output[0], output[1]


def piped(code: str, **variables: str) -> tuple[str, str]:
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment() | variables,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return done.stdout, done.stderr


def environment(**variables: str) -> dict[str, str]:
    ours = ("NO_COLOR", "FORCE_COLOR", "TERM", "COLORTERM", "TTY_COMPATIBLE")
    return {name: value for name, value in os.environ.items() if name not in ours} | {"LANG": "C.UTF-8"} | variables


def test_progress_is_shown_on_a_terminal_of_errors_and_erased_at_the_end() -> None:
    out, err = run_on_terminal(COUNTS)

    assert out.split() == ["5", "100", "None"]  # output during progress stays on stdout
    seen = ESCAPE.sub("", err)
    assert "working" in seen
    assert "50 of 100" in seen
    assert "50 of 1,200" in seen
    assert "of 5 " not in seen  # too few for a bar
    assert err.rstrip().endswith("\x1b[2K")  # the line is erased


@pytest.mark.parametrize("how", ["piped", "dumb"])
def test_progress_is_shown_nowhere_else(how: str) -> None:
    out, err = piped(COUNTS, FORCE_COLOR="1") if how == "piped" else run_on_terminal(COUNTS, TERM="dumb")

    assert (out.split(), err) == (["5", "100", "None"], "")


@pytest.mark.parametrize(
    ("terminal", "variables", "coloured"),
    [
        (True, {}, True),
        (True, {"NO_COLOR": "1"}, False),
        (True, {"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
        (True, {"TERM": "dumb"}, False),
        (False, {}, False),
        (False, {"FORCE_COLOR": "1"}, True),
    ],
    ids=str,
)
def test_colours_appear_on_request_and_never_carry_meaning_alone(
    terminal: bool, variables: dict[str, str], coloured: bool
) -> None:
    out, err = (run_on_terminal if terminal else piped)(VERDICT, **variables)

    assert bool(COLOUR.search(out)) is coloured
    assert "P: refused (P)" in COLOUR.sub("", out)
    assert "error: agents.yaml: is missing [c]" in COLOUR.sub("", out)
    assert err == ""
