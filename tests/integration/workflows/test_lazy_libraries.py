"""Processes that start no chat load no provider libraries."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.integration

PROGRAM = """
import sys
import ops.missing_requirements, ops.doctor.package_and_model_checks
import triggers.gateway.gateway_app, workflows.models_file
from workflows.provider_libraries import LIBRARY_MODULES, describe_missing_library
assert not any(describe_missing_library(provider) for provider in LIBRARY_MODULES)
print([name for name in ("ag2", "openai", *LIBRARY_MODULES.values()) if name in sys.modules])
"""


def test_a_process_that_starts_no_chat_loads_no_provider() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=60)

    assert done.stdout.strip() == "[]"


def test_prices_cost_nothing_to_import() -> None:
    program = "import sys, accounting.prices; print([name for name in ('pydantic', 'yaml') if name in sys.modules])"

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)

    assert done.stdout.strip() == "[]"
