"""hadolint and the Dockerfile."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_hadolint_finds_nothing() -> None:
    program = Path(sys.executable).parent / "hadolint"

    done = subprocess.run([program, ROOT / "Dockerfile"], capture_output=True, text=True, check=False, timeout=60)

    assert (done.returncode, done.stdout + done.stderr) == (0, "")
