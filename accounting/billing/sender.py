"""The billing sender: posts due batches of the outbox, each at least once.

The batch that has been due longest goes first. Any number of senders may run, in one process and in several. A batch
that was posted but not marked, since its sender was killed in between, is posted again with the same id and the same
bytes. Failed batches are retried with backoff and then marked dead. A failing endpoint is paused, and no longer called
once it answers 410.
"""

import asyncio
import logging
import random
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import httpx

from accounting.billing.batch_signature import parse_signing_keys, sign_headers
from accounting.billing.delivery_backoff import DeliveryBackoff
from accounting.billing.endpoint_health import EndpointHealth
from accounting.billing.http_post import GONE, PostResult, post_batch
from accounting.billing.outbox import ClaimedBatch, Outbox

log = logging.getLogger(__name__)

IDLE_INTERVAL_S = 1.0
UNSIGNED_INTERVAL_S = 10.0
STOP_TIMEOUT_S = 1.0


class BillingSender:
    def __init__(
        self,
        outbox: Outbox,
        endpoint: EndpointHealth,
        http: httpx.AsyncClient,
        *,
        secrets: Callable[[], Sequence[str]],
        backoff: DeliveryBackoff,
        stop: asyncio.Event,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """`secrets` is called before each post, as secrets may change.

        Its ValueError is logged. Once `stop` is set, the sender no longer waits for the endpoint.
        """
        self._outbox = outbox
        self._endpoint = endpoint
        self._http = http
        self._secrets = secrets
        self._backoff = backoff
        self._stop = stop
        self._chance = chance
        self._logged_key_error = ""

    async def post_next(self) -> float:
        """Posts one batch and returns the seconds until the next one may be due."""
        keys = self._load_signing_keys()
        if not keys:
            return UNSIGNED_INTERVAL_S
        if await self._endpoint.is_paused() or (batch := await self._outbox.claim()) is None:
            return IDLE_INTERVAL_S
        result = await self._run_until_stopped(self._post(batch, keys))
        if result is None:
            await self._outbox.release(batch)
        else:
            await self._record_result(batch, result)
        return 0.0

    def _load_signing_keys(self) -> Sequence[bytes]:
        """Loads the signing keys. Without any nothing is sent, and nothing is lost."""
        try:
            keys = parse_signing_keys(self._secrets())
        except ValueError as error:
            if str(error) != self._logged_key_error:
                log.error("billing_cannot_sign", extra={"reason": str(error)})
            self._logged_key_error = str(error)
            return ()
        self._logged_key_error = ""
        return keys

    async def _post(self, batch: ClaimedBatch, keys: Sequence[bytes]) -> PostResult:
        headers = sign_headers(batch.id, batch.body, keys=keys, at_s=int(time.time()))
        return await post_batch(
            self._http,
            self._endpoint.url,
            batch.body,
            headers=headers,
            timeout_s=self._backoff.answer_timeout_s,
            body_timeout_s=self._backoff.body_timeout_s,
        )

    async def _run_until_stopped(self, work: Coroutine[Any, Any, PostResult]) -> PostResult | None:
        """Cancels the post when `stop` is set; returns None then.

        Commands to the store are never cancelled: they might run on.
        """
        post, stop = asyncio.create_task(work), asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait((post, stop), return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait((post,), timeout=STOP_TIMEOUT_S)
            return post.result() if post.done() else None
        finally:
            post.cancel()
            stop.cancel()
            await asyncio.wait((post, stop))

    async def _record_result(self, batch: ClaimedBatch, result: PostResult) -> None:
        if result.is_delivered:
            await self._outbox.mark_delivered(batch)
            await self._endpoint.record_success()
            log.debug("billing_batch_delivered", extra={"batch": batch.id})
            return
        await self._endpoint.record_failure(result, batch_id=batch.id)
        if result.status == GONE:
            await self._outbox.release(batch)
            log.error("billing_endpoint_gone", extra={"batch": batch.id})
            return
        failures = batch.failures + 1
        retry_in_s = self._backoff.retry_delay_s(failures, retry_after_s=result.retry_after_s, chance=self._chance())
        await self._outbox.mark_failed(batch, result.description, retry_in_s=retry_in_s)
        facts = {"batch": batch.id, "failures": failures, "status": result.status}
        if retry_in_s is None:
            log.error("billing_batch_dead", extra=facts)
        else:
            log.warning("billing_batch_failed", extra={**facts, "again_in_s": round(retry_in_s)})
