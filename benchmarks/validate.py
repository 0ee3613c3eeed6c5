"""Milliseconds to inspect a package, against parsing the same files and nothing else.

    .venv/bin/python benchmarks/validate.py [DIRECTORY...]

The baseline reads the same files in the same run: YAML with the C loader, tools and hooks with ast. `first` is
what a command pays that ends after it; the others are medians of rounds in one process, as roles pay them.
Without a directory: the packages we ship, and a generated one that is larger than any seen.
"""

import ast
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

# This folder comes last: `accounting` and `triggers` are the packages, not files of it.
sys.path.sort(key=lambda place: Path(place).resolve() == Path(__file__).resolve().parent)

import yaml

from workflows.package.catalog import LIBRARY, list_package_folders
from workflows.package.loader import inspect_package
from workflows.package.normal_form.package_model import Package

ROUNDS = 7
TARGET_MS = 50
AGENTS, VARIABLES, TOOLS, MODELS = 40, 200, 60, 150
LOREM = "Say what you know, ask for what you need, and hand over when you are done. " * 12


def write_large(folder: Path) -> None:
    agents = [f"Agent{number}" for number in range(AGENTS)]
    files: dict[str, Any] = {
        "orchestrator": {"workflow_name": "Large", "initial_agent": agents[0], "max_turns": 50},
        "agents": {"agents": [{"name": name, "prompt_sections": sections()} for name in agents]},
        "context_variables": {
            "definitions": {
                f"state_{n}": {"type": "boolean", "source": {"type": "state", "default": False}}
                for n in range(VARIABLES)
            },
            "agents": {name: {"variables": [f"state_{n}", f"state_{n + 1}"]} for n, name in enumerate(agents)},
        },
        "handoffs": {"handoff_rules": [*conditions(agents), *endings(agents)]},
        "tools": {
            "tools": [
                {"agent": agents[n % AGENTS], "file": f"tool_{n}.py", "function": f"tool_{n}", "description": "d"}
                for n in range(TOOLS)
            ]
        },
        "structured_outputs": {
            "models": {f"Model{n}": {"type": "model", "fields": fields(n)} for n in range(MODELS)},
            "registry": {name: f"Model{n}" for n, name in enumerate(agents)},
        },
    }
    (folder / "tools").mkdir(parents=True)
    for stem, body in files.items():
        (folder / f"{stem}.yaml").write_text(yaml.safe_dump(body, sort_keys=False))
    for n in range(TOOLS):
        body = "\n".join(f"    value_{line} = name + {line!r}" for line in map(str, range(40)))
        (folder / "tools" / f"tool_{n}.py").write_text(f"def tool_{n}(name: str) -> str:\n{body}\n    return name\n")


def sections() -> list[dict[str, str]]:
    return [{"id": name, "heading": f"[{name}]", "content": LOREM} for name in ("ROLE", "TASK", "RULES", "OUTPUT")]


def conditions(agents: list[str]) -> list[dict[str, str]]:
    """Each agent may go on to the three after it."""
    return [
        {
            "source_agent": name,
            "target_agent": agents[min(n + step, AGENTS - 1)],
            "handoff_type": "condition",
            "condition_type": "expression",
            "condition": f"${{state_{n + step}}} == True and not ${{state_{n}}}",
        }
        for n, name in enumerate(agents)
        for step in (1, 2, 3)
    ]


def endings(agents: list[str]) -> list[dict[str, str]]:
    return [{"source_agent": name, "target_agent": "terminate", "handoff_type": "after_work"} for name in agents]


def fields(number: int) -> dict[str, dict[str, Any]]:
    scalars = {f"field_{n}": {"type": "str", "description": "what it is"} for n in range(6)}
    return {
        **scalars,
        "kind": {"type": "literal", "values": ["a", "b"]},
        "items": {"type": "list", "items": f"Model{(number + 1) % MODELS}"},
        "note": {"type": "union", "variants": ["str", "null"]},
    }


def files_of(package: Package) -> list[Path]:
    code = {each.file for each in (*package.tools, *package.lifecycle_tools, *package.hooks)}
    return [*(package.folder / name for name in package.file_names.values()), *sorted(code)]


def parse_only(files: list[Path]) -> None:
    for path in files:
        if path.suffix == ".py":
            ast.parse(path.read_bytes())
        elif path.suffix == ".json":
            json.loads(path.read_text(encoding="utf-8-sig"))
        else:
            yaml.load(path.read_text(encoding="utf-8-sig"), yaml.CSafeLoader)


def milliseconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000


def median_ms(work: Callable[[], object]) -> float:
    return statistics.median(milliseconds(work) for _ in range(ROUNDS))


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        write_large(Path(scratch) / "Large")
        given = [Path(each) for each in sys.argv[1:]]
        folders = list_package_folders(given or [LIBRARY, Path(scratch) / "Large"])
        print(f"{'package':40} {'first ms':>9} {'inspect ms':>10} {'parse ms':>9} {'ratio':>6}")
        for folder in folders:
            first = milliseconds(partial(inspect_package, folder))
            inspection = inspect_package(folder)
            assert inspection.package is not None
            assert given or inspection.verdict != "refused", inspection.findings
            inspect = median_ms(partial(inspect_package, folder))
            parse = median_ms(partial(parse_only, files_of(inspection.package)))
            print(f"{inspection.name:40} {first:9.1f} {inspect:10.1f} {parse:9.1f} {inspect / parse:6.2f}")
    print(f"target: {TARGET_MS} ms for a package of ordinary size")


if __name__ == "__main__":
    main()
