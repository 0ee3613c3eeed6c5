"""Wake-ups from a command: sent before it ends, or left to the reconciler when Redis does not answer."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from workers.settings import Settings
from workers.waking import WakeupSender


@asynccontextmanager
async def open_wakeups(settings: Settings) -> AsyncIterator[WakeupSender]:
    from workers.broker.wakeups import Wakeups, celery_publisher
    from workers.celery import configure

    wakeups = Wakeups(celery_publisher(configure(settings)))
    wakeups.start()
    try:
        yield wakeups
    finally:
        await wakeups.stop()
