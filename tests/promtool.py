"""promtool, which knows what Prometheus takes."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest


def promtool(*arguments: str | Path, given: bytes | None = None) -> tuple[int, str]:
    """In CI its absence is a failure: .ci/run installs it."""
    program = shutil.which("promtool")
    if program is None:
        if os.environ.get("CI"):
            pytest.fail("promtool is not installed; .ci/run should have done it")
        pytest.skip("promtool is not installed here: apt-get install prometheus")
    done = subprocess.run([program, *arguments], input=given, capture_output=True, check=False, timeout=60)
    return done.returncode, (done.stdout + done.stderr).decode()
