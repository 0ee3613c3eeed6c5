"""Programs of the system that tests run: where they are, or a word on how to get them."""

import os
import shutil

import pytest


def require_program(name: str, *, package: str) -> str:
    """In CI its absence is a failure: .ci/run installs it."""
    found = shutil.which(name)
    if found is None and os.environ.get("CI"):
        pytest.fail(f"{name} is not installed; .ci/run should have done it")
    if found is None:
        pytest.skip(f"{name} is not installed here: apt-get install {package}")
    return found
