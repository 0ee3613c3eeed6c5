"""The image: hadolint accepts its Dockerfile, and only chosen files of the checkout go into it."""

import os
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[3]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
IGNORED = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()


def test_the_user_is_an_unprivileged_number() -> None:
    """The user id is fixed: Kubernetes compares numbers, and the chart and Compose's file permissions use 10001."""
    assert re.findall(r"^USER (.*)$", DOCKERFILE, re.MULTILINE) == ["10001:10001"]
    assert "unattended:x:10001:10001:" in DOCKERFILE


def test_versions_come_from_the_constraints_and_no_index_is_named() -> None:
    assert "PIP_CONSTRAINT=/source/constraints.txt" in DOCKERFILE
    assert not re.search(r"index-url|find-links|trusted-host|https?://", DOCKERFILE)


def test_the_base_is_a_python_that_the_project_supports() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    bases = re.findall(r"^ARG PYTHON=python:(3\.\d+)-slim-\w+$", DOCKERFILE, re.MULTILINE)

    assert len(bases) == 1
    assert f"Programming Language :: Python :: {bases[0]}" in project["classifiers"]
    assert "embedded" not in DOCKERFILE  # it contains no servers


def test_only_what_the_wheel_is_made_of_goes_into_the_build() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    packed = project["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]
    taken = {line.removeprefix("!") for line in IGNORED if line.startswith("!")}

    assert IGNORED[1] == "*"  # an allow list: no .env, no secret, no data
    assert taken == {*packed, "pyproject.toml", "constraints.txt", "README.md", "LICENSE"}
    assert not any(os.path.commonpath([each, "ops/runbook.md"]) == each for each in IGNORED if each.startswith("ops/"))
