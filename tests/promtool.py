"""promtool, which knows what Prometheus takes."""

import subprocess
from pathlib import Path

from tests.programs import require_program


def promtool(*arguments: str | Path, stdin: bytes | None = None) -> tuple[int, str]:
    program = require_program("promtool", package="prometheus")
    done = subprocess.run([program, *arguments], input=stdin, capture_output=True, check=False, timeout=60)
    return done.returncode, (done.stdout + done.stderr).decode()
