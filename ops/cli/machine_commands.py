"""Commands for this machine: the demo, everything at once, and the doctor."""

import asyncio
from pathlib import Path
from typing import Any

import click

from ops.cli.command import command
from ops.cli.output import json_option, print_json, print_table
from ops.cli.progress import show_progress
from workers.logs import configure_logging
from workers.settings import SettingsError, load_settings

data_dir_option = click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where the embedded servers keep data. Default: UNATTENDED_DATA_DIR, of the demo a fresh one.",
)


@command("demo", examples=["unattended demo", "unattended demo --json > demo.json"], related=["up", "doctor"])
@data_dir_option
@json_option
def demo(data_dir: Path | None, as_json: bool) -> None:
    """Shows everything on this machine in two minutes, then ends.

    A schedule, a MongoDB change, a webhook and a form start runs; then comes the bill. Uses servers of its own in a
    fresh directory, and canned answers instead of a model.
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

    Data is kept between starts.
    """
    from ops.up import run_up

    settings = load_settings(data_dir=data_dir)
    configure_logging(role="up", log_format=settings.log_format, log_level=settings.log_level)
    asyncio.run(run_up(settings))


@command("doctor", examples=["unattended doctor", "unattended doctor --json"], related=["validate", "up"])
@data_dir_option
@json_option
def doctor(data_dir: Path | None, as_json: bool) -> None:
    """Says what would break, and what to do about it.

    Checks settings, Redis, MongoDB, packages, models, ports and billing. Exit code 1 when something would break.
    """
    from ops.doctor.check_result import has_problem
    from ops.doctor.examination import examine, settings_problem

    configure_logging(role="doctor", log_format="console", log_level="error")
    try:
        with show_progress("examining"):
            checks = asyncio.run(examine(load_settings(data_dir=data_dir)))
    except SettingsError as error:
        checks = [settings_problem(error)]
    rows: list[dict[str, Any]] = [
        {"check": each.name, "level": each.level, "found": each.found, "advice": each.advice} for each in checks
    ]
    if as_json:
        print_json({"ok": not has_problem(checks), "checks": rows})
    else:
        print_table("Doctor", ["check", "level", "found", "what to do"], [list(row.values()) for row in rows])
    raise SystemExit(1 if has_problem(checks) else 0)
