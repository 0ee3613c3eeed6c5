"""Billing beside the ticks: posts what the outbox holds, where an endpoint is set."""

import asyncio
from collections.abc import Sequence
from typing import Any

from pymongo.asynchronous.database import AsyncDatabase

from accounting.billing.outbox import Outbox
from triggers.service_loop import repeat
from workers.settings import Settings

MOST_IN_FLIGHT = 4


async def bill(database: AsyncDatabase[dict[str, Any]], settings: Settings, *, stop: asyncio.Event) -> None:
    if settings.billing_url is None:
        return
    # Libraries that nobody needs who bills nobody.
    from accounting.billing.endpoint import Endpoint
    from accounting.billing.pace import Pace
    from accounting.billing.posting import client
    from accounting.billing.sender import Sender

    def secrets() -> Sequence[str]:
        return [settings.resolve_secret(reference) for reference in sorted(settings.billing_secret)]

    outbox, pace = Outbox(database), Pace()
    await outbox.ensure_indexes()
    async with client() as http, asyncio.TaskGroup() as tasks:
        endpoint = Endpoint(database, settings.billing_url, pace)
        sender = Sender(outbox, endpoint, http, secrets=secrets, pace=pace, stop=stop)
        for _ in range(MOST_IN_FLIGHT):
            tasks.create_task(repeat(sender.step, what="post billing batches", stop=stop))
