"""Libraries of providers are not loaded by those who start no chat."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.integration

PROGRAM = """
import sys
import ops.unmet_needs, ops.doctor.packages, workflows.models_file, triggers.gateway.app
from workflows.provider_libraries import LIBRARIES, missing_library
assert not any(missing_library(provider) for provider in LIBRARIES)
print([name for name in ("ag2", "openai", *LIBRARIES.values()) if name in sys.modules])
"""


def test_a_process_that_starts_no_chat_loads_no_provider() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=60)

    assert done.stdout.strip() == "[]"


def test_prices_cost_nothing_to_import() -> None:
    program = "import sys, accounting.prices; print([name for name in ('pydantic', 'yaml') if name in sys.modules])"

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)

    assert done.stdout.strip() == "[]"
