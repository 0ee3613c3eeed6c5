"""What the trigger benchmarks stand on: a package on disk, and a trigger role's ground in a database of its own."""

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml
from ulid import ULID

from triggers.role_context import RoleContext, build_role_context
from workers.broker.publisher import Publisher
from workers.broker.wakeups import Wakeups
from workers.celery import configure
from workers.embedded_services import Services
from workers.settings import Settings
from workers.store.run_store import connect
from workflows.package.catalog import Catalog

WORKFLOW = "Bench"
PACKAGE = {
    "orchestrator": {
        "workflow_name": WORKFLOW,
        "initial_agent": "Only",
        "inputs": {"order": {"type": "string"}, "amount": {"type": "number"}},
    },
    "agents": {"agents": [{"name": "Only", "system_message": "Say ok."}]},
}


def write_package(folder: Path, *triggers: Mapping[str, Any]) -> Path:
    """The directory to look for packages in."""
    package = folder / WORKFLOW
    package.mkdir(parents=True)
    for stem, body in {**PACKAGE, "triggers": {"triggers": [dict(each) for each in triggers]}}.items():
        (package / f"{stem}.yaml").write_text(yaml.safe_dump(body))
    return folder


def settings_of(services: Services, packages: Path, **changes: Any) -> Settings:
    environ = {**os.environ, **changes.pop("environ", {})}
    queue = "bench"  # the same for all: an app reads its configuration once
    return services.fill(
        Settings(database=f"bench_{ULID()}".lower(), queue=queue, packages=(packages,), environ=environ, **changes)
    )


@asynccontextmanager
async def ground_for(services: Services, packages: Path) -> AsyncIterator[RoleContext]:
    settings = settings_of(services, packages)
    database = connect(settings.mongodb_url or "", database=settings.database)
    wakeups = Wakeups(Publisher(configure(settings)))
    ground = build_role_context(database, settings, catalog=Catalog((packages,)), wakeups=wakeups)
    await ground.store.ensure_indexes()
    await ground.triggers.ensure_indexes()
    wakeups.start()
    try:
        yield ground
    finally:
        await wakeups.stop()
        await database.client.drop_database(database.name)
        await database.client.close()
