"""Libraries that a command imports."""

import subprocess
import sys
from importlib.metadata import version

import pytest


@pytest.mark.parametrize("arguments", [["--help"], ["triggers", "--help"], ["runs", "--help"], ["--version"]])
def test_describing_commands_imports_only_the_command_library(arguments: list[str]) -> None:
    code = f"""
import sys
from ops.cli.main import cli
cli.main({arguments!r}, standalone_mode=False)
print(sorted({{"pydantic", "pymongo", "yaml", "rich", "asyncio", "celery"}} & sys.modules.keys()))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)

    assert done.stdout.splitlines()[-1] == "[]"
    assert done.stdout.startswith(("Usage", f"unattended {version('unattended')}"))
