"""Billing beside the ticks: posts what the outbox holds, where an endpoint is set."""

import asyncio
from collections.abc import Sequence
from typing import Any

from pymongo.asynchronous.database import AsyncDatabase

from accounting.billing.outbox import Outbox
from triggers.service_loop import repeat
from workers.settings import Settings

MAX_IN_FLIGHT = 4


async def post_bills(database: AsyncDatabase[dict[str, Any]], settings: Settings, *, stop: asyncio.Event) -> None:
    if settings.billing_url is None:
        return
    # Libraries that nobody needs who bills nobody.
    from accounting.billing.endpoint import EndpointHealth
    from accounting.billing.pace import DeliveryBackoff
    from accounting.billing.posting import create_http_client
    from accounting.billing.sender import BillingSender

    def secrets() -> Sequence[str]:
        return [settings.resolve_secret(reference) for reference in sorted(settings.billing_secret)]

    outbox, pace = Outbox(database), DeliveryBackoff()
    await outbox.ensure_indexes()
    async with create_http_client() as http, asyncio.TaskGroup() as tasks:
        endpoint = EndpointHealth(database, settings.billing_url, pace)
        sender = BillingSender(outbox, endpoint, http, secrets=secrets, backoff=pace, stop=stop)
        for _ in range(MAX_IN_FLIGHT):
            tasks.create_task(repeat(sender.post_next, step_name="post billing batches", stop=stop))
