"""The five roles as commands; each imports what it needs when it starts, and no more."""

import asyncio
from typing import Any

import click

from workers.logs import configure_logging
from workers.services import with_services
from workers.setting_values import Address, parse_address
from workers.settings import Settings, load_settings


class AddressType(click.ParamType[Address]):
    name = "host:port"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Address:
        try:
            return value if isinstance(value, Address) else parse_address(str(value))
        except ValueError as error:
            self.fail(f"write {error}", param, ctx)


def _settings(role: str, *, redis: bool = True, **flags: Any) -> Settings:
    settings = load_settings(**flags)
    configure_logging(role=role, log_format=settings.log_format, log_level=settings.log_level)
    return with_services(settings, redis=redis)


metrics_option = click.option("--metrics-listen", type=AddressType(), help="First address for /metrics.")


@click.command()
@click.option("--concurrency", type=click.IntRange(min=1), help="Runs at once in this process.")
@metrics_option
def worker(**flags: Any) -> None:
    """Works on runs: claims them, holds the chats, records what they cost."""
    from workers.serve import serve

    serve(_settings("worker", **flags))


@click.command()
@metrics_option
def scheduler(**flags: Any) -> None:
    """Fires schedules and reconciles: lost wake-ups, dead workers' runs. Any number may run."""
    from triggers.schedule.serve import serve

    asyncio.run(serve(_settings("scheduler", **flags)))


@click.command()
@metrics_option
def watcher(**flags: Any) -> None:
    """Turns MongoDB changes into runs. Any number may run; one owns a stream at a time."""
    from triggers.change_stream.serve import serve

    asyncio.run(serve(_settings("watcher", **flags)))


@click.command()
@click.option("--listen", type=AddressType(), help="Address to answer on.")
def gateway(**flags: Any) -> None:
    """Answers webhooks, forms and the API over HTTP."""
    from triggers.gateway.serve import run

    run(_settings("gateway", **flags))


@click.command()
@metrics_option
def exporter(**flags: Any) -> None:
    """Shows runs, queues and usage of the whole cluster to Prometheus."""
    from ops.exporter.serve import serve

    asyncio.run(serve(_settings("exporter", redis=False, **flags)))
