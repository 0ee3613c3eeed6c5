"""Large events: a change and its two documents may exceed a 16 MB message.

Such an event is read again without its documents. Expressions then see no `fullDocument` and no
`fullDocumentBeforeChange`, so triggers that need neither still start their runs. An event that is still too large, or
that comes through a pipeline of its own, is skipped. Either way a gap is recorded.
"""

import logging
from contextlib import suppress
from dataclasses import dataclass

from triggers.change_stream.event_batcher import EventIntake
from triggers.change_stream.resume_token_store import Gap, StreamPosition, StreamStore
from triggers.change_stream.stream_metrics import StreamMetrics
from triggers.change_stream.stream_plan import StreamPlan
from triggers.change_stream.stream_source import EventTooLargeError, StreamRefusedError, StreamSource

log = logging.getLogger(__name__)

GAP_REASON = "event_too_large"
_UNREADABLE_EVENT = "the next event is beyond 16 MB even without its content; resume with --from a later time"


@dataclass(frozen=True, slots=True)
class PassedEvent:
    position: StreamPosition
    was_large: bool


class LargeEvents:
    def __init__(self, source: StreamSource, store: StreamStore, metrics: StreamMetrics) -> None:
        self._source = source
        self._store = store
        self._metrics = metrics

    async def read_next(self, plan: StreamPlan, intake: EventIntake, position: StreamPosition) -> PassedEvent | None:
        """Reads the event after `position`, which may be the large one.

        The driver reads two events at a time even with a batch size of one.
        """
        try:
            large = await self._source.read_next_without_content(plan, position)
        except EventTooLargeError:
            raise StreamRefusedError(_UNREADABLE_EVENT) from None
        if large is None or large["operationType"] == "invalidate":
            return None
        behind = StreamPosition(large["_id"], large["clusterTime"])
        with suppress(EventTooLargeError):
            whole = await self._source.read_event(plan, large)
            if whole is None:
                return None
            await intake.process([whole])
            return PassedEvent(behind, was_large=False)
        event = None
        if not plan.own_pipeline:  # a pipeline may read what is left out
            with suppress(EventTooLargeError):
                event = await self._source.read_event(plan, large, with_documents=False)
        if event is not None:
            await intake.process([event])
        event_time = large["clusterTime"].as_datetime()
        await self._store.record_gap(plan.id, Gap(event_time, event_time, GAP_REASON))
        self._metrics.count_gap(plan.id)
        place = {"collection": large["ns"].get("coll"), "taken": event is not None}
        log.error(GAP_REASON, extra={"stream": plan.id, **place})
        return PassedEvent(behind, was_large=True)
