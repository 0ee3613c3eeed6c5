"""What a command prints beside its log."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from ops.cli.main import cli
from tests.unit.workflows.packages import write_package

ALONE = {"agents": [{"name": "A", "system_message": "You are A."}]}


def package(folder: Path, name: str = "P", **files: Any) -> Path:
    orchestrator = {"workflow_name": name, "initial_agent": "A"}
    return write_package(folder / name, **{"orchestrator": orchestrator, "agents": ALONE, **files})


def unattended(*arguments: Any, **environ: str) -> Result:
    clean = {name: None for name in os.environ if name.startswith("UNATTENDED_") or name == "ENVIRONMENT"}
    return CliRunner().invoke(cli, [str(each) for each in arguments], env={**clean, **environ})


def test_a_command_is_not_interrupted_by_the_log(tmp_path: Path) -> None:
    """In a process of its own: pytest sets up a log, commands have none."""
    package(tmp_path, "Broken", tools="- [")
    command = [sys.executable, "-m", "unattended", "packages", "list"]
    environ = {**os.environ, "UNATTENDED_PACKAGES": str(tmp_path)}

    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=60)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("name\tverdict\tstarted")
