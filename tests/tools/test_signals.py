"""What tests start is interrupted by Ctrl-C, also where a shell has started the tests in the background."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
IGNORED = "import signal as s; print([each.name for each in (s.SIGINT, s.SIGQUIT) if s.getsignal(each) == s.SIG_IGN])"
# As pytest does it, before it starts anything.
PROGRAM = """
import subprocess, sys
import tests.conftest
subprocess.run([sys.executable, "-I", "-S", "-c", sys.argv[1]], check=True)
"""


def test_children_of_tests_in_the_background_ignore_no_signal() -> None:
    line = f'trap \'\' INT QUIT; "{sys.executable}" -I -S -c \'{IGNORED}\'; exec "{sys.executable}" -c "$0" "$1"'

    done = subprocess.run(
        ["sh", "-c", line, PROGRAM, IGNORED], capture_output=True, text=True, check=True, timeout=60, cwd=ROOT
    )

    assert done.stdout.splitlines() == ["['SIGINT', 'SIGQUIT']", "[]"]
