"""The five roles as commands; each imports what it needs when it starts, and no more."""

import asyncio
from typing import Any

import click

from ops.cli.command import command
from workers.embedded_services import with_services
from workers.logs import configure_logging
from workers.setting_values import Address, parse_address
from workers.settings import Settings, load_settings


class AddressType(click.ParamType[Address]):
    name = "host:port"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Address:
        try:
            return value if isinstance(value, Address) else parse_address(str(value))
        except ValueError as error:
            self.fail(f"write {error}", param, ctx)


def _load_role_settings(role: str, *, redis: bool = True, **flags: Any) -> Settings:
    settings = load_settings(**flags)
    configure_logging(role=role, log_format=settings.log_format, log_level=settings.log_level)
    return with_services(settings, redis=redis)


metrics_option = click.option(
    "--metrics-listen", type=AddressType(), help="First address for /metrics. Default: UNATTENDED_METRICS_LISTEN."
)


@command(
    "worker",
    examples=["unattended worker --concurrency 100", "unattended worker --metrics-listen 0.0.0.0:9400"],
    related=["scheduler", "runs list"],
)
@click.option(
    "--concurrency", type=click.IntRange(min=1), help="Runs at once in this process. Default: UNATTENDED_CONCURRENCY."
)
@metrics_option
def worker(**flags: Any) -> None:
    """Works on runs: claims them, holds chats, counts tokens."""
    from workers.worker_role import serve

    serve(_load_role_settings("worker", **flags))


@command("scheduler", examples=["unattended scheduler"], related=["triggers list", "worker"])
@metrics_option
def scheduler(**flags: Any) -> None:
    """Fires schedules; finds lost wake-ups and dead workers' runs.

    Any number may run.
    """
    from triggers.schedule.scheduler_role import serve

    asyncio.run(serve(_load_role_settings("scheduler", **flags)))


@command("watcher", examples=["unattended watcher"], related=["triggers list", "triggers resume"])
@metrics_option
def watcher(**flags: Any) -> None:
    """Turns MongoDB changes into runs.

    Any number may run; one owns a stream at a time.
    """
    from triggers.change_stream.watcher_role import serve

    asyncio.run(serve(_load_role_settings("watcher", **flags)))


@command("gateway", examples=["unattended gateway --listen 0.0.0.0:8400"], related=["keys create", "triggers list"])
@click.option("--listen", type=AddressType(), help="Address to answer on. Default: UNATTENDED_LISTEN.")
def gateway(**flags: Any) -> None:
    """Answers webhooks, forms, the API and the console over HTTP."""
    from ops.console.app import console_routes
    from triggers.gateway.gateway_role import run

    run(_load_role_settings("gateway", **flags), console_routes)


@command("exporter", examples=["unattended exporter --metrics-listen 127.0.0.1:9400"], related=["usage", "doctor"])
@metrics_option
def exporter(**flags: Any) -> None:
    """Shows runs, queues and usage to Prometheus.

    Of the whole cluster: one exporter is enough.
    """
    from ops.exporter.exporter_role import serve

    asyncio.run(serve(_load_role_settings("exporter", redis=False, **flags)))
