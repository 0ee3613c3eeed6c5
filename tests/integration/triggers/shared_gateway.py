"""One gateway for all tests of a module, which takes longer to start than most of them take."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from ulid import ULID

from tests.integration.triggers.gateway_server import Gateway, running_gateway
from triggers.register.trigger import Trigger
from workers.embedded_services import Services
from workers.settings import Settings
from workflows.package.trigger_specs.trigger_spec import TriggerSpec


@asynccontextmanager
async def shared_gateway(
    servers: Services, folder: Path, *specs: TriggerSpec, dropped: Callable[[str], None]
) -> AsyncIterator[Gateway]:
    """With triggers of acme's beside those of the package."""
    name = f"test_{ULID()}".lower()
    settings = Settings(
        mongodb_url=servers.mongodb_url, redis_url=servers.redis_url, database=name, queue=name, data_dir=folder
    )
    async with running_gateway(settings, folder) as running:
        for spec in specs:
            await running.ground.triggers.create(Trigger("Sales", spec, app_id="acme"))
        yield running
    dropped(name)


async def delete_runs(gateway: Gateway) -> Gateway:
    await gateway.ground.store.runs.delete_many({})
    return gateway


async def empty_collections(gateway: Gateway) -> Gateway:
    database = gateway.ground.database
    for name in await database.list_collection_names():
        await database[name].delete_many({})
    return gateway
