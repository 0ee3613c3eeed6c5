"""The sender: posts due batches of the outbox to the endpoint, at least once each, the longest due first.

Any number may work at once, in one process and in several. A batch that was posted and not marked, since its sender was
killed in between, is posted again with the same id and the same bytes. What could not be delivered is tried again at
its pace, and then dead; an endpoint that fails is spared for a moment, and left alone once it answers 410.
"""

import asyncio
import logging
import random
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import httpx

from accounting.billing.endpoint import Endpoint
from accounting.billing.outbox import Claimed, Outbox
from accounting.billing.pace import Pace
from accounting.billing.posted import GONE, Posted
from accounting.billing.posting import post
from accounting.billing.signature import signed_headers, signing_keys

log = logging.getLogger(__name__)

IDLE_S = 1.0
UNSIGNED_S = 10.0
ENDS_WITHIN_S = 1.0


class Sender:
    def __init__(
        self,
        outbox: Outbox,
        endpoint: Endpoint,
        http: httpx.AsyncClient,
        *,
        secrets: Callable[[], Sequence[str]],
        pace: Pace,
        stop: asyncio.Event,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """`secrets` are asked for before each post, so that they may change; ValueError says why there are none. Once
        `stop` is set no endpoint is waited for any longer."""
        self._outbox = outbox
        self._endpoint = endpoint
        self._http = http
        self._secrets = secrets
        self._pace = pace
        self._stop = stop
        self._chance = chance
        self._unsigned = ""

    async def step(self) -> float:
        """Posts one batch; seconds until there may be another one."""
        keys = self._keys()
        if not keys:
            return UNSIGNED_S
        if await self._endpoint.is_spared() or (batch := await self._outbox.claim()) is None:
            return IDLE_S
        posted = await self._unless_stopped(self._post(batch, keys))
        if posted is None:
            await self._outbox.give_back(batch)
        else:
            await self._settle(batch, posted)
        return 0.0

    def _keys(self) -> Sequence[bytes]:
        """Nothing while they cannot be had: then nothing is sent, and nothing is lost."""
        try:
            keys = signing_keys(self._secrets())
        except ValueError as error:
            if str(error) != self._unsigned:
                log.error("billing_cannot_sign", extra={"reason": str(error)})
            self._unsigned = str(error)
            return ()
        self._unsigned = ""
        return keys

    async def _post(self, batch: Claimed, keys: Sequence[bytes]) -> Posted:
        headers = signed_headers(batch.id, batch.body, keys=keys, at_s=int(time.time()))
        within_s = self._pace.answers_within_s
        return await post(self._http, self._endpoint.url, batch.body, headers=headers, within_s=within_s)

    async def _unless_stopped(self, work: Coroutine[Any, Any, Posted]) -> Posted | None:
        """None: broken off. Only the post is: a cancelled command of the store may go on as if nothing had been."""
        posting, stopped = asyncio.create_task(work), asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait((posting, stopped), return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait((posting,), timeout=ENDS_WITHIN_S)
            return posting.result() if posting.done() else None
        finally:
            posting.cancel()
            stopped.cancel()
            await asyncio.wait((posting, stopped))

    async def _settle(self, batch: Claimed, posted: Posted) -> None:
        if posted.delivered:
            await self._outbox.delivered(batch)
            await self._endpoint.took()
            log.debug("billing_batch_delivered", extra={"batch": batch.id})
            return
        await self._endpoint.refused(posted, batch_id=batch.id)
        if posted.status == GONE:
            await self._outbox.give_back(batch)
            log.error("billing_endpoint_gone", extra={"batch": batch.id})
            return
        failures = batch.failures + 1
        again_in_s = self._pace.again_in_s(failures, retry_after_s=posted.retry_after_s, chance=self._chance())
        await self._outbox.failed(batch, posted.what, again_in_s=again_in_s)
        said = {"batch": batch.id, "failures": failures, "status": posted.status}
        if again_in_s is None:
            log.error("billing_batch_dead", extra=said)
        else:
            log.warning("billing_batch_failed", extra={**said, "again_in_s": round(again_in_s)})
