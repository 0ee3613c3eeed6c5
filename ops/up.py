"""`unattended up`: starts the embedded servers, if none are configured, and all roles."""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

import click

from ops.doctor.broker_checks import check_redis
from ops.doctor.mongodb_checks import check_mongodb
from ops.embedded.embedded_error import EmbeddedError
from ops.embedded.embedded_servers import embedded_servers
from ops.free_ports import require_distinct, require_free, resolve_port
from ops.processes.role_processes import role_addresses, role_children
from ops.processes.supervisor import EXTRA_WORKER_GRACE_S, GRACE_S, Supervisor
from ops.prometheus_files import scrape_config_path, scrape_files
from triggers.service_loop import stop_on_signals
from workers.settings import Settings
from workflows.models_file import find_models_path, read_models_file
from workflows.operator_file import find_operator_path, read_operator_file
from workflows.package.catalog import LIBRARY, package_directories


async def run_up(settings: Settings) -> None:
    # Report everything that would make a role fail at once, before anything is started.
    models = read_models_file(find_models_path(settings.models, library=LIBRARY))
    read_operator_file(find_operator_path(settings.config), own_database=settings.database)
    require_distinct(settings.listen, settings.metrics_listen)
    require_free(settings.listen, setting="UNATTENDED_LISTEN")
    require_free(settings.metrics_listen, setting="UNATTENDED_METRICS_LISTEN")
    await _require_usable_servers(settings)
    with stop_on_signals() as stop:
        async with run_servers_and_roles(settings) as (ready, supervisor):
            click.echo(_banner(ready, models.path.name), err=True)
            await _wait_either(stop.wait(), supervisor.wait_until_stopped())
            click.echo("stopping …", err=True)


async def _wait_either(stop: Awaitable[object], supervision: Awaitable[object]) -> None:
    """Wait for a signal, or for a failure of the supervisor, which ends the process."""
    tasks = [asyncio.ensure_future(stop), asyncio.ensure_future(supervision)]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()


async def _require_usable_servers(settings: Settings) -> None:
    """Check configured servers; the embedded ones report their own problems when they start."""
    checks = await check_redis(settings.redis_url) if settings.redis_url else []
    if settings.mongodb_url:
        checks += await check_mongodb(settings.mongodb_url, database=settings.database, embedded=False)
    for check in checks:
        if check.level == "problem":
            raise EmbeddedError(f"{check.found}; {check.advice}")


@asynccontextmanager
async def run_servers_and_roles(settings: Settings) -> AsyncIterator[tuple[Settings, Supervisor]]:
    """Start servers, then roles; stop them in the opposite order."""
    async with AsyncExitStack() as stack:
        if not (settings.mongodb_url and settings.redis_url):
            if sys.stderr.isatty():
                click.echo("starting the embedded servers …", err=True)
            services = await stack.enter_async_context(
                embedded_servers(settings.data_dir, mongodb=not settings.mongodb_url, redis=not settings.redis_url)
            )
            settings = services.fill(settings)
        settings = replace(
            settings, listen=resolve_port(settings.listen), metrics_listen=resolve_port(settings.metrics_listen)
        )
        addresses = role_addresses(settings)
        stack.enter_context(scrape_files(settings.data_dir, addresses))
        children = role_children(settings, addresses)
        supervisor = await stack.enter_async_context(
            Supervisor(children, grace_s=max(GRACE_S, settings.grace_s + EXTRA_WORKER_GRACE_S))
        )
        yield settings, supervisor


def _banner(settings: Settings, models: str) -> str:
    directories = ", ".join(map(str, package_directories(settings.packages)))
    return (
        f"Unattended is up; stop it with Ctrl-C.\n"
        f"  hooks and forms  http://{settings.listen}/\n"
        f"  console          http://{settings.listen}/console\n"
        f"  metrics          http://{settings.metrics_listen}/metrics\n"
        f"  Prometheus       prometheus --config.file={scrape_config_path(settings.data_dir)}\n"
        f"  packages         {directories}\n"
        f"  models           {models}\n"
        f"  MongoDB          {settings.mongodb_url if '@' not in (settings.mongodb_url or '') else 'as configured'}"
    )
