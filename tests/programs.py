"""Programs of the system that tests run: where they are, or a word on how to get them."""

import os
import shutil
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest


def require_program(name: str, *, package: str) -> str:
    """In CI its absence is a failure: .ci/run installs it."""
    found = shutil.which(name)
    if found is None and os.environ.get("CI"):
        pytest.fail(f"{name} is not installed; .ci/run should have done it")
    if found is None:
        pytest.skip(f"{name} is not installed here: apt-get install {package}")
    return found


def wait_until_ready(process: subprocess.Popen[bytes], address: str, log: Path) -> None:
    give_up_at = time.monotonic() + 30
    while process.poll() is None and time.monotonic() < give_up_at:
        try:
            with urllib.request.urlopen(f"http://{address}/-/ready", timeout=5):
                return
        except OSError:
            time.sleep(0.05)
    raise AssertionError(f"it does not get ready:\n{log.read_text()}")
