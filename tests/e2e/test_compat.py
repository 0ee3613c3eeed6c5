"""Packages that other people wrote, as they are published: all are read, and counted as a plain reader counts them."""

import json
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.product import unattended

pytestmark = [pytest.mark.e2e, pytest.mark.compat, pytest.mark.timeout(300)]

WHEEL = "mozaiks==0.2.0"
PACKAGES = "factory_app/workflows"
LEAST = 15
ROUTING = ("handoff_rules", "transition_rules", "handoffs", "transitions")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packages inside of the wheel, unpacked; nothing of them is kept."""
    target = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest"]
    done = subprocess.run([*pip, str(target), WHEEL], capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stderr
    (wheel,) = target.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(target, [name for name in archive.namelist() if name.startswith(f"{PACKAGES}/")])
    return target / PACKAGES


@pytest.fixture(scope="module")
def answers(folder: Path) -> list[dict[str, Any]]:
    done = unattended("validate", str(folder), "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    packages: list[dict[str, Any]] = json.loads(done.stdout)["packages"]
    return packages


def raw(package: Path, *stems: str) -> Any:
    """The first of these files, by the plainest reader there is."""
    for stem in stems:
        for suffix, read in ((".yaml", yaml.safe_load), (".yml", yaml.safe_load), (".json", json.loads)):
            path = package / f"{stem}{suffix}"
            if path.exists():
                body = read(path.read_text(encoding="utf-8-sig"))
                wrapped = body.get(stem) if isinstance(body, dict) else None
                return wrapped if isinstance(wrapped, dict) and stem != "agents" else body
    return {}


def size(body: Any, *keys: str) -> int:
    return sum(len(body.get(key) or ()) for key in keys) if isinstance(body, dict) else len(body or ())


def counted(package: Path) -> Mapping[str, int]:
    network = (raw(package, "orchestrator") or {}).get("orchestration_pattern") == "ag2_network"
    routing = ("transition_graph", "handoffs") if network else ("handoffs", "transition_graph")
    hooks = ("middleware", "hooks") if network else ("hooks", "middleware")
    return {
        "agents": size(raw(package, "agents"), "agents"),
        "tools": size(raw(package, "tools"), "tools"),
        "lifecycle_tools": size(raw(package, "tools"), "lifecycle_tools"),
        "handoffs": size(raw(package, *routing), *ROUTING),
        "variables": size(raw(package, "context_variables"), "definitions", "variables"),
        "models": size(raw(package, "structured_outputs"), "models"),
        "hooks": size(raw(package, *hooks), "hooks", "prompt_middleware"),
        "triggers": size(raw(package, "triggers", "orchestrator"), "triggers"),
    }


def test_every_folder_with_an_orchestrator_is_listed(folder: Path, answers: list[dict[str, Any]]) -> None:
    expected = {path.parent for path in folder.glob("*/orchestrator.*")}

    assert {Path(each["path"]) for each in answers} == expected
    assert len(answers) == len(expected) >= LEAST


def test_no_package_is_refused(answers: list[dict[str, Any]]) -> None:
    errors = [finding for each in answers for finding in each["findings"] if finding["level"] == "error"]

    assert errors == []
    assert {each["verdict"] for each in answers} <= {"ready", "findings"}


def test_every_count_is_what_a_plain_reader_counts(answers: list[dict[str, Any]]) -> None:
    expected = {each["name"]: counted(Path(each["path"])) for each in answers}

    assert {each["name"]: each["counts"] for each in answers} == expected
    for kind in ("agents", "tools", "lifecycle_tools", "handoffs", "variables", "models", "hooks", "triggers"):
        assert sum(counts[kind] for counts in expected.values()) > 0, f"no package has {kind}: nothing was compared"


def says_something(data: Any) -> bool:
    if isinstance(data, dict | list):
        return any(map(says_something, data.values() if isinstance(data, dict) else data))
    return data is not None


def test_nothing_that_is_not_executed_is_dropped_in_silence(folder: Path, answers: list[dict[str, Any]]) -> None:
    codes = {Path(each["path"]).name: {finding["code"] for finding in each["findings"]} for each in answers}

    for batches in folder.glob("*/extended_orchestration/task_batches.*"):
        assert "task_batches" in codes[batches.parent.parent.name]
    for screens in folder.glob("*/ui_config.*"):
        speaks = says_something(yaml.safe_load(screens.read_text(encoding="utf-8-sig")))
        assert ("ui_only" in codes[screens.parent.name]) is speaks
