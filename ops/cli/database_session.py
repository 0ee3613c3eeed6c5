"""A database session for one command: settings, addresses, a connection, and wake-ups."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from workers.embedded_services import with_services
from workers.logs import configure_logging
from workers.settings import Settings, load_settings
from workers.wakeup_sender import WakeupSender

if TYPE_CHECKING:
    from pymongo.asynchronous.database import AsyncDatabase

T = TypeVar("T")

Work = Callable[["AsyncDatabase[dict[str, Any]]", Settings], Awaitable[T]]


def with_database(work: Work[T], *, redis: bool = False) -> T:
    settings = with_services(load_settings(), redis=redis)
    if redis:  # so that a wake-up that cannot be sent is logged with its reason
        configure_logging(role="cli", log_format="console", log_level="warning")
        logging.getLogger("workflows").setLevel(logging.CRITICAL)  # the command itself reports on packages

    from workers.store.run_store import connect

    async def run() -> T:
        database = connect(settings.mongodb_url or "", database=settings.database)
        try:
            return await work(database, settings)
        finally:
            await database.client.close()

    return asyncio.run(run())


@asynccontextmanager
async def open_wakeups(settings: Settings) -> AsyncIterator[WakeupSender]:
    from workers.broker.publisher import Publisher
    from workers.broker.wakeups import Wakeups
    from workers.celery import configure

    wakeups = Wakeups(Publisher(configure(settings)))
    wakeups.start()
    try:
        yield wakeups
    finally:
        await wakeups.stop()
