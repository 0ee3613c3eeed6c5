"""Published packages of other authors: all are read, their parts are counted correctly, and valid ones are started."""

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
from workflows.package.loader import inspect_package

pytestmark = [pytest.mark.e2e, pytest.mark.compat, pytest.mark.timeout(300)]

WHEEL = "mozaiks==0.2.0"
PACKAGES = "factory_app/workflows"
MIN_PACKAGES = 15
# The findings that keep a package from being started, and a module that it lacks; None if it is started.
FOREIGN = frozenset({"foreign_import"})
BATCHES = frozenset({"task_batches"})
NOT_STARTED: Mapping[str, tuple[frozenset[str], str] | None] = {
    "AgentGenerator": (FOREIGN | BATCHES, "mozaiksai.core.workflow.outputs.structured"),
    "AppGenerator": (FOREIGN | BATCHES, "mozaiksai.core.workflow.outputs.structured"),
    "AppReview": (FOREIGN, "mozaiksai.core.artifacts"),
    "BrandAssetGeneratorWorkflow": None,
    "DesignDocs": (FOREIGN, "mozaiksai.core.artifacts"),
    "ExistingAppDiscovery": (FOREIGN, "mozaiksai.core.app_context.intelligence"),
    "RuntimeContextExpressionTaskBatchSmoke": (FOREIGN | BATCHES, "factory_app.workflows.RuntimeTaskBatchSmoke.tools"),
    "RuntimeSmoke": None,
    "RuntimeTaskBatchSmoke": (BATCHES, "task batches are not executed yet"),
    "RuntimeToolCallSmoke": (FOREIGN, "mozaiksai.core.workflow.generator_support.connector_request"),
    "RuntimeUIPrimitiveSmoke": None,
    "SecurityReadiness": (FOREIGN, "mozaiksai.core.runtime.app.auth_contract"),
    "SubscriptionContractDesigner": (FOREIGN, "mozaiksai.core.artifacts"),
    "ThemeCapture": (FOREIGN, "mozaiksai.core.workflow.outputs.structured"),
    "ValueEngine": (FOREIGN, "factory_app.app.modules.app_registry.backend.policy"),
}
STARTED = sorted(name for name, why in NOT_STARTED.items() if why is None)
# Each file with a tool, a step or a hook: its findings alone, and the result of the worker's loader.
LOAD_EACH_FILE = """
import json, sys
from pathlib import Path
from workflows.chat.chat_errors import PackageDefect
from workflows.chat.package_code.package_modules import PackageModules
from workflows.package.findings import Findings
from workflows.package.loader import load_package
from workflows.package.readers.code.package_code import PackageCode
from workflows.package.readers.section import Section

said = {}
for orchestrator in sorted(Path(sys.argv[1]).glob("*/orchestrator.*")):
    package = load_package(orchestrator.parent)
    for file in sorted({each.file for each in (*package.tools, *package.lifecycle_tools, *package.hooks)}):
        findings = Findings()
        code = PackageCode(package.folder, kind="hook")
        code.locate(Section({}, file="", path="", findings=findings), str(file), "", fields=("file", "function"))
        try:
            PackageModules(package).load_module(file)
            error = None
        except PackageDefect as defect:
            error = str(defect)
        said[f"{package.name}/{file.name}"] = [[each.code for each in findings.all if each.is_blocking], error]
served = [name for name in sys.modules if name.split(".")[0] in ("logs", "core", "mozaiksai", "factory_app", "autogen")]
print(json.dumps({"files": said, "in sys.modules": served}))
"""
ROUTING = ("handoff_rules", "transition_rules", "handoffs", "transitions")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Unpack the packages of the wheel into a temporary directory."""
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


def read_raw(package: Path, *stems: str) -> Any:
    """Read the first of these files that exists, with a plain JSON or YAML reader."""
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


def count_parts(package: Path) -> Mapping[str, int]:
    network = (read_raw(package, "orchestrator") or {}).get("orchestration_pattern") == "ag2_network"
    routing = ("transition_graph", "handoffs") if network else ("handoffs", "transition_graph")
    hooks = ("middleware", "hooks") if network else ("hooks", "middleware")
    return {
        "agents": size(read_raw(package, "agents"), "agents"),
        "tools": size(read_raw(package, "tools"), "tools"),
        "lifecycle_tools": size(read_raw(package, "tools"), "lifecycle_tools"),
        "handoffs": size(read_raw(package, *routing), *ROUTING),
        "variables": size(read_raw(package, "context_variables"), "definitions", "variables"),
        "models": size(read_raw(package, "structured_outputs"), "models"),
        "hooks": size(read_raw(package, *hooks), "hooks", "prompt_middleware"),
        "triggers": size(read_raw(package, "triggers", "orchestrator"), "triggers"),
    }


def test_every_folder_with_an_orchestrator_is_listed(folder: Path, answers: list[dict[str, Any]]) -> None:
    expected = {path.parent for path in folder.glob("*/orchestrator.*")}

    assert {Path(each["path"]) for each in answers} == expected
    assert len(answers) == len(expected) >= MIN_PACKAGES


def test_no_package_is_refused(answers: list[dict[str, Any]]) -> None:
    errors = [finding for each in answers for finding in each["findings"] if finding["level"] == "error"]

    assert errors == []
    assert {each["verdict"] for each in answers} <= {"ready", "findings"}


def test_every_count_is_what_a_plain_reader_counts(answers: list[dict[str, Any]]) -> None:
    expected = {each["name"]: count_parts(Path(each["path"])) for each in answers}

    assert {each["name"]: each["counts"] for each in answers} == expected
    for kind in ("agents", "tools", "lifecycle_tools", "handoffs", "variables", "models", "hooks", "triggers"):
        assert sum(counts[kind] for counts in expected.values()) > 0, f"no package has {kind}: nothing was compared"


def has_content(data: Any) -> bool:
    if isinstance(data, dict | list):
        return any(map(has_content, data.values() if isinstance(data, dict) else data))
    return data is not None


def test_nothing_that_is_not_executed_is_dropped_in_silence(folder: Path, answers: list[dict[str, Any]]) -> None:
    codes = {Path(each["path"]).name: {finding["code"] for finding in each["findings"]} for each in answers}

    for batches in folder.glob("*/extended_orchestration/task_batches.*"):
        assert "task_batches" in codes[batches.parent.parent.name]
    for screens in folder.glob("*/ui_config.*"):
        speaks = has_content(yaml.safe_load(screens.read_text(encoding="utf-8-sig")))
        assert ("ui_only" in codes[screens.parent.name]) is speaks


def test_each_package_starts_or_reports_why_not(folder: Path) -> None:
    obstacles = {path.parent.name: inspect_package(path.parent).obstacles for path in folder.glob("*/orchestrator.*")}

    codes = {name: frozenset(each.code for each in found) for name, found in obstacles.items()}
    assert codes == {name: frozenset() if why is None else why[0] for name, why in NOT_STARTED.items()}
    for name, why in NOT_STARTED.items():
        words = "" if why is None else why[1]
        assert not words or any(words in each.message for each in obstacles[name]), name


@pytest.mark.parametrize("name", STARTED)
def test_what_starts_asks_its_model(folder: Path, tmp_path: Path, name: str) -> None:
    """The package's tools, steps and hooks are imported first."""
    reply = {"agent_message": "done", "result": "it runs", "confidence": 1.0}
    (tmp_path / "answers.json").write_text(json.dumps({"default": {"text": json.dumps(reply)}}), encoding="utf-8")

    done = unattended("run", str(folder / name), "--script", "answers.json", "--json", cwd=tmp_path)

    report = json.loads(done.stdout)
    assert report["state"] == ("succeeded" if name == "RuntimeSmoke" else "needs_human"), report["outcome"]
    assert [each["text"] for each in report["turns"]] == [json.dumps(reply)]


def test_the_loader_and_the_checks_agree_on_every_file(folder: Path, tmp_path: Path) -> None:
    """Run foreign code in a process of its own."""
    load = [sys.executable, "-c", LOAD_EACH_FILE, str(folder)]
    done = subprocess.run(load, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout.splitlines()[-1])

    disagreeing = {name: said for name, said in answer["files"].items() if bool(said[0]) != (said[1] is not None)}
    assert disagreeing == {}
    assert {code for codes, _ in answer["files"].values() for code in codes} == {"foreign_import"}
    assert sum(error is None for _, error in answer["files"].values()) >= 20
    assert answer["in sys.modules"] == []
    assert not list(folder.rglob("__pycache__"))
