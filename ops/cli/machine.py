"""Commands for this machine: the demo, everything at once, and the doctor."""

import asyncio
from pathlib import Path
from typing import Any

import click

from ops.cli.output import json_option, print_json, print_table
from workers.logs import configure_logging
from workers.settings import SettingsError, load_settings

data_dir_option = click.option(
    "--data-dir", type=click.Path(path_type=Path, file_okay=False), help="Where the embedded servers keep data."
)


@click.command()
@data_dir_option
@json_option
def demo(data_dir: Path | None, as_json: bool) -> None:
    """Everything on this machine: a schedule, a MongoDB change, a webhook and a form start runs; then the bill.

    Uses servers of its own in a fresh directory, canned answers instead of a model, and ends by itself.
    """
    from ops.demo.demo import run_demo

    configure_logging(role="demo", log_format="console", log_level="warning")
    raise SystemExit(asyncio.run(run_demo(data_dir, as_json=as_json)))


@click.command()
@data_dir_option
def up(data_dir: Path | None) -> None:
    """Servers and all roles on this machine, until Ctrl-C. Data is kept between starts."""
    from ops.up import run_up

    settings = load_settings(data_dir=data_dir)
    configure_logging(role="up", log_format=settings.log_format, log_level=settings.log_level)
    asyncio.run(run_up(settings))


@click.command()
@data_dir_option
@json_option
def doctor(data_dir: Path | None, as_json: bool) -> None:
    """Checks settings, Redis, MongoDB, packages, models and ports; says what to do about each problem."""
    from ops.doctor.checks import would_break
    from ops.doctor.examine import examine, unusable_settings

    configure_logging(role="doctor", log_format="console", log_level="error")
    try:
        checks = asyncio.run(examine(load_settings(data_dir=data_dir)))
    except SettingsError as error:
        checks = [unusable_settings(error)]
    rows: list[dict[str, Any]] = [
        {"check": each.name, "level": each.level, "found": each.found, "advice": each.advice} for each in checks
    ]
    if as_json:
        print_json({"ok": not would_break(checks), "checks": rows})
    else:
        print_table("Doctor", ["check", "level", "found", "what to do"], [list(row.values()) for row in rows])
    raise SystemExit(1 if would_break(checks) else 0)
