"""The five roles as commands; each imports its role only when it starts."""

import asyncio
from typing import Any

import click

from ops.cli.command import command
from ops.cli.parameters import AddressType
from workers.embedded_services import with_services
from workers.logs import configure_logging
from workers.settings import Settings, load_settings

metrics_option = click.option(
    "--metrics-listen",
    type=AddressType(),
    help="Address of /metrics; roles other than the exporter use the next free port."
    " Default: UNATTENDED_METRICS_LISTEN.",
)


def _load_role_settings(role: str, *, redis: bool = True, **flags: Any) -> Settings:
    settings = load_settings(**flags)
    configure_logging(role=role, log_format=settings.log_format, log_level=settings.log_level)
    return with_services(settings, redis=redis)


@command(
    "worker",
    examples=["unattended worker --concurrency 100", "unattended worker --metrics-listen 0.0.0.0:9400"],
    related=["scheduler", "runs list"],
)
@click.option(
    "--concurrency",
    type=click.IntRange(min=1),
    help="Maximum number of runs at once in this process. Default: UNATTENDED_CONCURRENCY.",
)
@metrics_option
def worker(**flags: Any) -> None:
    """Executes runs.

    Claims queued runs, takes their turns, and writes checkpoints and usage. Any number of workers may run.
    """
    from workers.worker_role import serve

    serve(_load_role_settings("worker", **flags))


@command("scheduler", examples=["unattended scheduler"], related=["triggers list", "worker"])
@metrics_option
def scheduler(**flags: Any) -> None:
    """Fires schedules; repairs lost wake-ups and runs of dead workers.

    Any number of schedulers may run.
    """
    from triggers.schedule.scheduler_role import serve

    asyncio.run(serve(_load_role_settings("scheduler", **flags)))


@command("watcher", examples=["unattended watcher"], related=["triggers list", "triggers resume"])
@metrics_option
def watcher(**flags: Any) -> None:
    """Turns MongoDB changes into runs.

    Any number of watchers may run; one at a time owns a change stream.
    """
    from triggers.change_stream.watcher_role import serve

    asyncio.run(serve(_load_role_settings("watcher", **flags)))


@command("gateway", examples=["unattended gateway --listen 0.0.0.0:8400"], related=["keys create", "triggers list"])
@click.option("--listen", type=AddressType(), help="Address to listen on. Default: UNATTENDED_LISTEN.")
def gateway(**flags: Any) -> None:
    """Serves webhooks, forms, the API and the console over HTTP."""
    from ops.console.app import console_routes
    from triggers.gateway.gateway_role import run

    run(_load_role_settings("gateway", **flags), console_routes)


@command("exporter", examples=["unattended exporter --metrics-listen 127.0.0.1:9400"], related=["usage", "doctor"])
@metrics_option
def exporter(**flags: Any) -> None:
    """Exports metrics of runs, queues and usage to Prometheus.

    They cover the whole cluster, so one exporter is enough.
    """
    from ops.exporter.exporter_role import serve

    asyncio.run(serve(_load_role_settings("exporter", redis=False, **flags)))
