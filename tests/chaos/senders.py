"""Senders: what sends events, and sends one again until it hears that it was accepted; now and then once more."""

import asyncio
import random
from datetime import UTC, datetime

from pymongo.errors import PyMongoError

from tests.integration.stage import Stage
from triggers.acceptance import Acceptance
from workers.store.run import RunRequest, TriggerEvent


class HonestSenders:
    def __init__(self, stage: Stage, chance: random.Random) -> None:
        self._acceptance = Acceptance(stage.store, stage.wakeups)
        self._chance = chance
        self.accepted: dict[str, str] = {}

    async def send(self, count: int, *, within_s: float) -> None:
        for number in range(count):
            await self._deliver(f"event-{number}")
            if number % 20 == 0:
                await self._deliver(f"event-{self._chance.randint(0, number)}")
            await asyncio.sleep(within_s / count)

    async def _deliver(self, event: str) -> None:
        request = RunRequest(f"app-{event[-1]}", "Relay", TriggerEvent("webhook", "t", event, datetime.now(UTC)))
        while True:
            try:
                run_id = (await self._acceptance.accept(request)).run_id
                break
            except PyMongoError:
                await asyncio.sleep(0.1)
        assert self.accepted.setdefault(event, run_id) == run_id, f"{event} became two runs"
