"""The role context: store, wake-ups and packages of a trigger role."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from pymongo.asynchronous.database import AsyncDatabase

from triggers.acceptance import Acceptance
from triggers.register.trigger_stats import TriggerStats
from triggers.register.trigger_store import TriggerStore
from workers.broker.publisher import Publisher
from workers.broker.wakeups import Wakeups
from workers.celery import configure
from workers.settings import Settings
from workers.store.run_store import RunStore, connect
from workers.tracing.tracing import NO_TRACING, Tracing, open_tracing
from workflows.package.catalog import Catalog, package_directories


@dataclass(frozen=True, slots=True)
class RoleContext:
    settings: Settings
    database: AsyncDatabase[dict[str, Any]]
    store: RunStore
    acceptance: Acceptance
    catalog: Catalog
    wakeups: Wakeups
    triggers: TriggerStore
    stats: TriggerStats
    tracing: Tracing = NO_TRACING


def build_role_context(
    database: AsyncDatabase[dict[str, Any]],
    settings: Settings,
    *,
    catalog: Catalog,
    wakeups: Wakeups,
    tracing: Tracing = NO_TRACING,
) -> RoleContext:
    store = RunStore(database, republish_after_s=settings.republish_after_s)
    triggers = TriggerStore(database)
    acceptance = Acceptance(store, wakeups, tracing)
    return RoleContext(
        settings, database, store, acceptance, catalog, wakeups, triggers, TriggerStats(triggers), tracing
    )


@asynccontextmanager
async def open_role_context(settings: Settings, *, role: str = "cli") -> AsyncIterator[RoleContext]:
    """Opens the services. `settings` has both server addresses."""
    database = connect(settings.mongodb_url or "", database=settings.database)
    wakeups = Wakeups(Publisher(configure(settings)))
    tracing = open_tracing(settings, role=role)
    try:
        catalog = Catalog(package_directories(settings.packages))
        context = build_role_context(database, settings, catalog=catalog, wakeups=wakeups, tracing=tracing)
        await context.store.ensure_indexes()
        await context.triggers.ensure_indexes()
        wakeups.start()
        yield context
        await context.stats.write()
    finally:
        await wakeups.stop()
        await database.client.close()
        tracing.close()
