"""Commands for one machine: `demo`, `up` and `doctor`."""

import asyncio
from pathlib import Path
from typing import Any

import click

from ops.cli.command import command
from ops.cli.exit_codes import EXIT_FAILURE
from ops.cli.output import json_option, print_json, print_table
from ops.cli.progress import show_progress
from workers.logs import configure_logging
from workers.settings import SettingsError, load_settings

data_dir_option = click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="Data directory of the embedded servers. Default: UNATTENDED_DATA_DIR; for the demo a new one.",
)


@command("demo", examples=["unattended demo", "unattended demo --json > demo.json"], related=["up", "doctor"])
@data_dir_option
@json_option
def demo(data_dir: Path | None, as_json: bool) -> None:
    """Demonstrates the product on this machine in two minutes.

    A schedule, a MongoDB change, a webhook and a form start runs; then the demo prints their usage and ends. It starts
    its own servers in a new directory, and uses scripted answers instead of a model.
    """
    from ops.demo.demo import run_demo

    configure_logging(role="demo", log_format="console", log_level="warning")
    raise SystemExit(asyncio.run(run_demo(data_dir, as_json=as_json)))


@command(
    "up",
    examples=["unattended up", "unattended up --data-dir /var/lib/unattended"],
    related=["doctor", "enqueue", "runs list"],
)
@data_dir_option
def up(data_dir: Path | None) -> None:
    """Starts servers and all roles on this machine, until Ctrl-C.

    Data persists between starts.
    """
    from ops.up import run_up

    settings = load_settings(data_dir=data_dir)
    configure_logging(role="up", log_format=settings.log_format, log_level=settings.log_level)
    asyncio.run(run_up(settings))


@command("doctor", examples=["unattended doctor", "unattended doctor --json"], related=["validate", "up"])
@data_dir_option
@json_option
def doctor(data_dir: Path | None, as_json: bool) -> None:
    """Checks the installation, and prints how to fix each problem.

    Checks settings, Redis, MongoDB, packages, models, ports and billing. Exit code 1 when a check fails.
    """
    from ops.doctor.check_result import has_problem
    from ops.doctor.check_runner import examine, settings_problem

    configure_logging(role="doctor", log_format="console", log_level="error")
    try:
        with show_progress("checking"):
            checks = asyncio.run(examine(load_settings(data_dir=data_dir)))
    except SettingsError as error:
        checks = [settings_problem(error)]
    rows: list[dict[str, Any]] = [
        {"check": check.name, "level": check.level, "found": check.found, "advice": check.advice} for check in checks
    ]
    if as_json:
        print_json({"ok": not has_problem(checks), "checks": rows})
    else:
        print_table("Doctor", ["check", "level", "found", "what to do"], [list(row.values()) for row in rows])
    raise SystemExit(EXIT_FAILURE if has_problem(checks) else 0)
