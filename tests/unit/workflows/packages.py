"""Small valid packages on disk, written file by file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.quick_yaml import dumped
from workflows.package.findings import Finding
from workflows.package.loader import load_package
from workflows.package.normal_form.package_model import Package

ORCHESTRATOR: dict[str, Any] = {"workflow_name": "Small", "initial_agent": "A"}
AGENTS: dict[str, Any] = {
    "agents": [{"name": "A", "system_message": "You are A."}, {"name": "B", "system_message": "You are B."}]
}
# Findings about routing: small packages do not use B, and most tests are not about that.
WAYS = frozenset({"unreachable_agent", "no_way_on", "no_fallback", "no_exit", "hands_to_user"})
# A document of the app that a run reads, changes and writes back.
ENTITY: dict[str, Any] = {
    "type": "object",
    "source": {
        "type": "data_entity",
        "database_name": "shop",
        "collection": "customers",
        "search_by": "app_id",
        "schema": {"plan": "string"},
        "write_strategy": "on_success",
    },
}
TOOL = "def greet(name: str) -> str:\n    return f'hello {name}'\n"


def write_package(folder: Path, **files: Any) -> Path:
    """Writes files by stem: data as YAML, text as it is. `None` omits a file."""
    folder.mkdir(parents=True, exist_ok=True)
    for stem, body in {"orchestrator": ORCHESTRATOR, "agents": AGENTS, **files}.items():
        if body is not None:
            text = body if isinstance(body, str) else dumped(body, sort_keys=False)
            (folder / f"{stem}.yaml").write_text(text, encoding="utf-8")
    return folder


def write_tool(folder: Path, name: str, source: str) -> Path:
    path = folder / "tools" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source, encoding="utf-8")
    return path


def load(folder: Path, **files: Any) -> Package:
    return load_package(write_package(folder, **files))


def errors(package: Package) -> list[Finding]:
    return [finding for finding in package.findings if finding.level == "error"]


def faults(package: Package) -> list[Finding]:
    """Returns all findings except those about routing: `== []` means that everything was read."""
    return [finding for finding in package.findings if finding.code not in WAYS]


def finding_keys(package: Package) -> set[tuple[str, str, str, str]]:
    return {(finding.level, finding.code, finding.file, finding.path) for finding in package.findings}


def rule(source: str, target: str, condition: str | None = None, **fields: Any) -> Mapping[str, Any]:
    kind = {"handoff_type": "condition", "condition": condition} if condition else {"handoff_type": "after_work"}
    return {"source_agent": source, "target_agent": target, **kind, **fields}
