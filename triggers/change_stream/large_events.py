"""Events that are too large: one message carries at most 16 MB, and what changed, the whole document and the one before
the change may be more together.

Such an event is asked for once more without the documents beside it. Expressions then see no `fullDocument` and no
`fullDocumentBeforeChange`, so that triggers that need neither still start their runs. What is too large even so, or
comes through a pipeline of its own, is passed over. Either way a gap is recorded.
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
_UNREADABLE_EVENT = "the next event is beyond 16 MB even by its name alone; resume with --from a time behind it"


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
        """The next event from here, which may be the large one: the driver asks for two at a time even when it is told
        to ask for one. None when there is none."""
        try:
            large = await self._source.read_next_without_content(plan, position)
        except EventTooLargeError:
            raise StreamRefusedError(_UNREADABLE_EVENT) from None
        if large is None or large["operationType"] == "invalidate":
            return None
        behind = StreamPosition(large["_id"], large["clusterTime"])
        with suppress(EventTooLargeError):
            usual = await self._source.read_event(plan, large)
            if usual is None:
                return None
            await intake.process([usual])
            return PassedEvent(behind, was_large=False)
        event = None
        if not plan.own_pipeline:  # a pipeline may look at what is left out
            with suppress(EventTooLargeError):
                event = await self._source.read_event(plan, large, with_documents=False)
        if event is not None:
            await intake.process([event])
        happened = large["clusterTime"].as_datetime()
        await self._store.record_gap(plan.id, Gap(happened, happened, GAP_REASON))
        self._metrics.count_gap(plan.id)
        place = {"collection": large["ns"].get("coll"), "taken": event is not None}
        log.error(GAP_REASON, extra={"stream": plan.id, **place})
        return PassedEvent(behind, was_large=True)
