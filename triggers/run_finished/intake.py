"""The intake of ended runs: the end of one becomes the start of those that wait for it."""

import logging
from collections.abc import Collection, Hashable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from triggers.change_stream.intake import Event, happened_at
from triggers.change_stream.known import Chain
from triggers.change_stream.plain import plain
from triggers.change_stream.starting import Starting, Wish
from triggers.payload import PayloadError, holds
from triggers.run_finished.links import event_id_of, request_of, stopped_by, waits_for
from workers.store.run_document import as_json
from workers.store.run_store import RunStore
from workers.together import together

log = logging.getLogger(__name__)


class EndedRunsIntake:
    def __init__(self, chains: Sequence[Chain], starting: Starting, runs: RunStore) -> None:
        self._chains = chains
        self._starting = starting
        self._runs = runs

    def lanes(self, event: Event) -> Collection[Hashable]:  # noqa: ARG002 -- the protocol's
        return ()  # runs of one chain follow each other by themselves

    async def take(self, events: Sequence[Event]) -> None:
        wishes = [wish for each in await together(map(self._wishes, events)) for wish in each]
        if wishes:
            await self._starting.start(wishes)

    async def _wishes(self, event: Event) -> Sequence[Wish]:
        run_id = event["documentKey"]["_id"]
        state = event["updateDescription"]["updatedFields"]["state"]
        # Without it the run was too large to come with its event, or is gone.
        run = event.get("fullDocument") or await self._runs.find(run_id)
        if run is None:
            self._say_gone(run_id, state)
            return []
        ended_at = happened_at(event)
        waiting = [chain for chain in self._chains if waits_for(chain, run, state, ended_at=ended_at)]
        if not waiting:
            return []
        seen = plain({**as_json(run), "state": state})
        wished = (self._wish(chain, run, seen, state) for chain in waiting)
        return [wish for wish in wished if wish is not None]

    def _wish(self, chain: Chain, run: Mapping[str, Any], seen: Mapping[str, Any], state: str) -> Wish | None:
        trigger, app_id, event_id = chain.trigger, run["app_id"], event_id_of(run, state)
        try:
            if not holds(chain.spec.when, seen):
                self._starting.passed_over(trigger)
                return None
            if self._starting.is_paused(trigger, app_id, event_id):
                return None
            stop = stopped_by(chain, run)
            if stop is not None:
                led_here = " > ".join(run["chain"])
                self._starting.skipped(trigger, stop, app_id=app_id, event_id=event_id, detail=led_here)
                return None
            return Wish(trigger, request_of(chain, run, seen, state=state, now=datetime.now(UTC)))
        except PayloadError as error:
            self._starting.skipped(trigger, "unmappable", app_id=app_id, event_id=event_id, detail=str(error))
            return None

    def _say_gone(self, run_id: str, state: str) -> None:
        """Nobody knows of which workflow it was, so each trigger is told; nor of which app, so one that belongs to an
        app is not told which run it was."""
        for chain in self._chains:
            event_id = f"{run_id}:{state}" if chain.trigger.app_id is None else ""
            detail = "the run was removed before its end was seen; it may have been one that this trigger waits for"
            self._starting.skipped(chain.trigger, "gone", event_id=event_id, detail=detail)
