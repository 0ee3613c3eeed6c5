"""`python -m ops.dashboards`: writes the dashboards' JSON; `--check` only compares."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from grafana_foundation_sdk.builders.dashboard import Dashboard
from grafana_foundation_sdk.cog.encoder import JSONEncoder

from ops.dashboards import fleet_dashboard, triggers_dashboard, usage_dashboard, workflow_dashboard

FOLDER = Path(__file__).parent
BUILDERS = {
    "fleet": fleet_dashboard.build,
    "usage": usage_dashboard.build,
    "triggers": triggers_dashboard.build,
    "workflow": workflow_dashboard.build,
}


def dashboard_json(dashboard: Dashboard) -> str:
    return json.dumps(dashboard.build(), cls=JSONEncoder, indent=2, ensure_ascii=False) + "\n"


def build_files(folder: Path = FOLDER) -> dict[Path, str]:
    return {folder / f"{name}.json": dashboard_json(build()) for name, build in BUILDERS.items()}


def find_stale_files(folder: Path = FOLDER) -> list[Path]:
    """Return files that differ from their source, are missing, or have none."""
    built = build_files(folder)
    present = {path: path.read_text(encoding="utf-8") for path in folder.glob("*.json")}
    return sorted(path for path in built.keys() | present.keys() if built.get(path) != present.get(path))


def write_files(folder: Path) -> None:
    built = build_files(folder)
    for path in folder.glob("*.json"):
        path.unlink()
    for path, text in built.items():
        path.write_text(text, encoding="utf-8")


def main(arguments: Sequence[str], *, folder: Path = FOLDER) -> str | None:
    """Return an error message, or None."""
    if not arguments:
        write_files(folder)
        return None
    if list(arguments) != ["--check"]:
        return "usage: python -m ops.dashboards [--check]"
    names = ", ".join(path.name for path in find_stale_files(folder))
    return f"out of date: {names}; run make dashboards" if names else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
