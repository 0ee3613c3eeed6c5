"""The intake: one change event becomes durable runs, for every trigger that it concerns."""

import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from triggers.acceptance import Acceptance
from triggers.change_stream.mapping import run_requests
from triggers.change_stream.metrics import StreamMetrics
from triggers.change_stream.watches import Watch
from triggers.payload import PayloadError, plain_json
from workers.store.storable import NotStorableError

log = logging.getLogger(__name__)


class Intake:
    def __init__(self, acceptance: Acceptance, metrics: StreamMetrics) -> None:
        self._acceptance = acceptance
        self._metrics = metrics

    async def take(self, event: Mapping[str, Any], watches: Sequence[Watch]) -> None:
        """When it returns, nothing of the event is left to do. One trigger's failure is none of the others'."""
        concerned = [watch for watch in watches if watch.concerns(event)]
        payload = plain_json(event) if concerned else None
        for watch in concerned:
            try:
                await self._accept(watch, payload, event_id=event["_id"]["_data"])
            except PayloadError as error:
                self._skip(watch, "unmappable", error)
            except NotStorableError as error:
                self._skip(watch, "not_storable", error)

    async def _accept(self, watch: Watch, payload: Any, *, event_id: str) -> None:
        for request in run_requests(watch, payload, event_id=event_id, fired_at=datetime.now(UTC)):
            accepted = await self._acceptance.accept(request)
            if not accepted.created:
                self._metrics.duplicate(watch.id)

    def _skip(self, watch: Watch, reason: str, error: ValueError) -> None:
        self._metrics.skipped(watch.id, reason)
        log.warning("event_skipped", extra={"trigger": watch.id, "reason": reason, "error": str(error)})
