"""The renderer, built once for all processes of a session."""

import fcntl
import os
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.programs import require_program
from tests.tools.helm.chart import SETS, Rendered, render_chart

SOURCE = Path(__file__).with_name("render.go")
LIBRARIES = Path("/usr/share/gocode")  # Debian's path


@pytest.fixture(scope="session")
def renderer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = require_program("go", package="golang-go")
    if not (LIBRARIES / "src/github.com/Masterminds/sprig").is_dir() and not os.environ.get("CI"):
        pytest.skip("Helm's functions are not here: apt-get install golang-github-masterminds-sprig-dev")
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    program = shared / "render"
    with (shared / "render.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            _build(compiler, program)
    return program


def _build(compiler: str, program: Path) -> None:
    environ = {**os.environ, "GO111MODULE": "off", "GOPATH": str(LIBRARIES)}
    done = subprocess.run([compiler, "build", "-o", program, SOURCE], env=environ, capture_output=True, check=False)
    if done.returncode:
        libraries = "golang-github-masterminds-sprig-dev golang-github-ghodss-yaml-dev"
        pytest.fail(f"{done.stderr.decode()}\nIts libraries: apt-get install {libraries}")


@pytest.fixture(scope="session")
def render(renderer: Path) -> Callable[[str], Rendered]:
    """The chart rendered with one set of values, by name."""
    return cache(lambda name: render_chart(renderer, SETS[name]))
