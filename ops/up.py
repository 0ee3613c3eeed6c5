"""`unattended up`: the embedded servers if none are configured, and every role, until told to stop."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager

import click

from ops.doctor.mongodb import check_mongodb
from ops.doctor.redis import check_redis
from ops.embedded.errors import EmbeddedError
from ops.embedded.servers import embedded_servers
from ops.free_ports import require_apart, require_free
from ops.roles import role_children
from ops.supervisor import BEYOND_WORKERS_GRACE_S, GRACE_S, Supervisor
from triggers.service_loop import stopped_by_signals
from workers.settings import Settings
from workflows.models_file import models_path, read_models_file
from workflows.package.catalog import LIBRARY, package_directories


async def run_up(settings: Settings) -> None:
    # Everything that would make a role fail at once is said first, before anything is started.
    models = read_models_file(models_path(settings.models, library=LIBRARY))
    require_apart(settings.listen, settings.metrics_listen)
    require_free(settings.listen, setting="UNATTENDED_LISTEN")
    require_free(settings.metrics_listen, setting="UNATTENDED_METRICS_LISTEN")
    await _require_usable_servers(settings)
    with stopped_by_signals() as stop:
        async with running(settings) as (ready, supervisor):
            click.echo(_banner(ready, models.path.name), err=True)
            await _until_either(stop.wait(), supervisor.wait_until_stopped())
            click.echo("stopping …", err=True)


async def _until_either(told_to: Awaitable[object], gave_up: Awaitable[object]) -> None:
    """Told to stop, or the supervision itself failed: then its error ends the process."""
    tasks = [asyncio.ensure_future(told_to), asyncio.ensure_future(gave_up)]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()


async def _require_usable_servers(settings: Settings) -> None:
    """Those that are given; the embedded ones speak for themselves when they start."""
    checks = await check_redis(settings.redis_url) if settings.redis_url else []
    if settings.mongodb_url:
        checks += await check_mongodb(settings.mongodb_url, database=settings.database, embedded=False)
    for check in checks:
        if check.level == "problem":
            raise EmbeddedError(f"{check.found}; {check.advice}")


@asynccontextmanager
async def running(settings: Settings) -> AsyncIterator[tuple[Settings, Supervisor]]:
    """Servers, then roles; ended in the opposite order."""
    async with AsyncExitStack() as stack:
        if not (settings.mongodb_url and settings.redis_url):
            services = await stack.enter_async_context(
                embedded_servers(settings.data_dir, mongodb=not settings.mongodb_url, redis=not settings.redis_url)
            )
            settings = services.fill(settings)
        supervisor = await stack.enter_async_context(
            Supervisor(role_children(settings), grace_s=max(GRACE_S, settings.grace_s + BEYOND_WORKERS_GRACE_S))
        )
        yield settings, supervisor


def _banner(settings: Settings, models: str) -> str:
    places = ", ".join(str(place) for place in package_directories(settings.packages))
    return (
        f"Unattended is up; stop it with Ctrl-C.\n"
        f"  hooks and forms  http://{settings.listen}/\n"
        f"  metrics          http://{settings.metrics_listen}/metrics\n"
        f"  packages         {places}\n"
        f"  models           {models}\n"
        f"  MongoDB          {settings.mongodb_url if '@' not in (settings.mongodb_url or '') else 'as configured'}"
    )
