"""The intake of ended runs: the end of one becomes the start of those that wait for it."""

import logging
from collections.abc import Collection, Hashable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from pymongo.asynchronous.collection import AsyncCollection

from triggers.change_stream.intake import Event, read_event_time
from triggers.change_stream.known import ChainTrigger
from triggers.change_stream.plain import to_plain
from triggers.change_stream.starting import RunStarter, RunIntent
from triggers.payload import ExpressionError, is_condition_met
from triggers.run_finished.links import ended_run_event_id, build_chained_request, chain_stop_reason, is_awaited_end
from workers.store.run_document import as_json
from workers.together import gather_all

log = logging.getLogger(__name__)


class EndedRunsIntake:
    def __init__(self, chains: Sequence[ChainTrigger], starter: RunStarter, runs: AsyncCollection[dict[str, Any]]) -> None:
        self._chains = chains
        self._starter = starter
        self._runs = runs

    def lanes(self, event: Event) -> Collection[Hashable]:  # noqa: ARG002 -- the protocol's
        return ()  # runs of one chain follow each other by themselves

    async def process(self, events: Sequence[Event]) -> None:
        wishes = [wish for each in await gather_all(map(self._intents, events)) for wish in each]
        if wishes:
            await self._starter.start(wishes)

    async def _intents(self, event: Event) -> Sequence[RunIntent]:
        run_id = event["documentKey"]["_id"]
        state = event["updateDescription"]["updatedFields"]["state"]
        # Without it the run was too large to come with its event, or is gone.
        run = event.get("fullDocument") or await self._runs.find_one({"_id": run_id})
        if run is None:
            self._record_gone_run(run_id, state)
            return []
        ended_at = read_event_time(event)
        waiting = [chain for chain in self._chains if is_awaited_end(chain, run, state, ended_at=ended_at)]
        if not waiting:
            return []
        seen = to_plain({**as_json(run), "state": state})
        wished = (self._intent(chain, run, seen, state) for chain in waiting)
        return [wish for wish in wished if wish is not None]

    def _intent(self, chain: ChainTrigger, run: Mapping[str, Any], visible_run: Mapping[str, Any], state: str) -> RunIntent | None:
        trigger, app_id, event_id = chain.trigger, run["app_id"], ended_run_event_id(run, state)
        try:
            if not is_condition_met(chain.spec.when, visible_run):
                self._starter.count_skip(trigger)
                return None
            if self._starter.is_paused(trigger, app_id, event_id):
                return None
            stop = chain_stop_reason(chain, run)
            if stop is not None:
                led_here = " > ".join(run["chain"])
                self._starter.record_skip(trigger, stop, app_id=app_id, event_id=event_id, detail=led_here)
                return None
            return RunIntent(trigger, build_chained_request(chain, run, visible_run, state=state, now=datetime.now(UTC)))
        except ExpressionError as error:
            self._starter.record_skip(trigger, "unmappable", app_id=app_id, event_id=event_id, detail=str(error))
            return None

    def _record_gone_run(self, run_id: str, state: str) -> None:
        """Nobody knows of which workflow it was, so each trigger is told; nor of which app, so one that belongs to an
        app is not told which run it was."""
        for chain in self._chains:
            event_id = f"{run_id}:{state}" if chain.trigger.app_id is None else ""
            detail = "the run was removed before its end was seen; it may have been one that this trigger waits for"
            self._starter.record_skip(chain.trigger, "gone", event_id=event_id, detail=detail)
