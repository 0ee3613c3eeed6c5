"""An invalid MongoDB URL: commands print one line, and exit with the code for usage errors."""

import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize("url", ["mongodb://h:99999/", "mongodb://h:x/", "mongodb://", "http://h/"])
def test_an_invalid_mongodb_address_is_reported_in_one_line(url: str) -> None:
    command = [sys.executable, "-c", "from ops.cli.main import run; run()", "runs", "list"]
    environment = {**os.environ, "UNATTENDED_MONGODB_URL": url}

    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("unattended: UNATTENDED_MONGODB_URL")
    assert done.stderr.count("\n") == 1
