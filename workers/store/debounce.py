"""Debouncing: events in quick succession become one run, with the input of the newest event.

1. A new run is `open` for its key until its quiet time ends, a user makes it due, or it ends. An event that arrives
   meanwhile is merged into it in one atomic update. A run that was ever claimed does not match, even while it waits for
   its next attempt.
2. `events` holds the dedupe keys of all merged events and has a unique index: a repeated event, first or merged, starts
   nothing, however many processes send it at once.
3. A second unique index prevents two open runs for one key. The next insert closes a run that no longer takes events,
   so no other code needs to know about this.

All times are the database's, including the first one of a run: it is read beforehand, since an insert cannot use $$NOW.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from pymongo import ASCENDING, IndexModel
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.errors import DuplicateKeyError, WTimeoutError

from workers.store.run import Accepted, RunState
from workers.store.run_document import Document, key_of_app, literal
from workers.store.run_inserts import RunInserts

MAX_EVENTS = 1000  # of a run, which stores them all
_MAX_TRIES = 50

DEBOUNCE_INDEXES = (
    IndexModel(
        [("debounce.open", ASCENDING)],
        name="one_open_run_of_each_debounce",
        unique=True,
        partialFilterExpression={"debounce.open": {"$exists": True}},
    ),
    IndexModel(
        [("debounce.events", ASCENDING)],
        name="one_run_per_merged_event",
        unique=True,
        partialFilterExpression={"debounce.events": {"$exists": True}},
    ),
)

_STILL_QUIET: Mapping[str, Any] = {
    "state": RunState.QUEUED.value,
    "lease.token": 0,
    "$expr": {"$gt": ["$not_before", "$$NOW"]},
    f"debounce.events.{MAX_EVENTS - 1}": {"$exists": False},
}


class Debounce:
    def __init__(self, runs: AsyncCollection[Document], inserts: RunInserts) -> None:
        self._runs = runs
        self._inserts = inserts

    async def insert(self, run: Document, *, quiet: timedelta, max_delay: timedelta) -> Accepted:
        """Merges the event into the open run of its key, or inserts `run` with a quiet time."""
        opened, event = run["debounce"]["open"], run["dedupe_key"]
        for _ in range(_MAX_TRIES):
            try:
                merged = await self._merge(run, opened, event, quiet)
                if merged is not None:
                    return Accepted(merged["_id"], created=False, ready=False, merged=True)
                ready = await self._inserts.insert(await self._open_run(run, quiet, max_delay))
                return Accepted(run["_id"], created=True, ready=ready)
            except DuplicateKeyError:
                known = await self._run_of(event)
            if known is not None:
                return Accepted(known["_id"], created=known["_id"] == run["_id"], ready=False)
            await self._close(opened)
        raise WTimeoutError("other events of its debounce key come faster than it finds its run")

    async def _open_run(self, run: Document, quiet: timedelta, max_delay: timedelta) -> Document:
        hello = await self._runs.database.command("hello", codec_options=self._runs.codec_options)
        due = hello["localTime"] + quiet
        until = max(hello["localTime"] + max_delay, due)
        later = {name: value for name, value in run.items() if name != "lane"}
        return {**later, "not_before": due, "wake_at": due, "debounce": {**run["debounce"], "until": until}}

    async def _merge(self, run: Document, opened: str, event: str, quiet: timedelta) -> Document | None:
        quiet_ms = int(quiet.total_seconds() * 1000)
        due = {"$min": [{"$add": ["$$NOW", quiet_ms]}, "$debounce.until"]}
        newer = {
            "input": literal(run["input"]),
            "message": literal(run["message"]),
            "trigger": literal(run["trigger"]),
            # Standing answers were approved for the trigger version of their event, so they replace the old ones.
            "ui_responses": literal(run["ui_responses"]) if "ui_responses" in run else "$$REMOVE",
            "not_before": due,
            "wake_at": due,
            "debounce.events": {"$concatArrays": ["$debounce.events", [literal(event)]]},
        }
        still_open = {"debounce.open": opened, "debounce.events": {"$ne": event}, **_STILL_QUIET}
        return await self._runs.find_one_and_update(still_open, [{"$set": newer}], {"_id": 1})

    async def _run_of(self, event: str) -> Document | None:
        return await self._runs.find_one({"$or": [{"dedupe_key": event}, {"debounce.events": event}]}, {"_id": 1})

    async def _close(self, opened: str) -> None:
        """Closes the run, unless its quiet time still lasts: then the event is merged into it."""
        await self._runs.update_one({"debounce.open": opened, "$nor": [_STILL_QUIET]}, {"$unset": {"debounce.open": 1}})


def with_debounce(run: Document, *, app_id: str, key: str) -> Document:
    return {**run, "debounce": {"open": key_of_app(app_id, key), "events": [run["dedupe_key"]]}}
