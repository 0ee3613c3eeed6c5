"""Trigger stats: counts and notes about events, for `triggers show`.

They are kept in memory and written to the trigger's document every two seconds. A process that dies loses the counts
of its last seconds, and no run.
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pymongo.errors import ConnectionFailure, PyMongoError

from triggers.register.skip_notes import Notes
from triggers.register.trigger import Trigger
from triggers.register.trigger_store import TriggerStore
from triggers.service_loop import wait_for_stop

log = logging.getLogger(__name__)

WRITE_INTERVAL_S = 2.0
MAX_TRIGGERS = 10_000  # between two writes; further triggers are counted in metrics only

ACCEPTED = "accepted"
MERGED = "merged"
DUPLICATE = "duplicate"


@dataclass(slots=True)
class _StatsEntry:
    trigger: Trigger
    counts: dict[str, int] = field(default_factory=dict)
    notes: Notes = field(default_factory=Notes)
    fired_at: datetime | None = None


class TriggerStats:
    def __init__(self, store: TriggerStore) -> None:
        self._store = store
        self._entries: dict[str, _StatsEntry] = {}

    def count_accepted(self, trigger: Trigger, *, at: datetime) -> None:
        entry = self._entry(trigger)
        if entry is not None:
            _count(entry, ACCEPTED)
            entry.fired_at = at

    def count_merged(self, trigger: Trigger) -> None:
        """Counts an event that joined a debounced run: neither run nor duplicate."""
        if (entry := self._entry(trigger)) is not None:
            _count(entry, MERGED)

    def record_duplicate(self, trigger: Trigger, *, app_id: str | None, event_id: str) -> None:
        self._add_note(trigger, DUPLICATE, {"reason": DUPLICATE, "app_id": app_id, "event_id": event_id[:200]})

    def record_skip(
        self, trigger: Trigger, reason: str, *, app_id: str | None = None, event_id: str | None = None, detail: str = ""
    ) -> None:
        """Records a skip.

        `reason` is from the kind's closed set; `detail` holds no payload.
        """
        note = {"reason": reason, "app_id": app_id, "event_id": event_id and event_id[:200], "detail": detail[:300]}
        self._add_note(trigger, f"skipped.{reason}", note)

    def count_skip(self, trigger: Trigger, reason: str, *, times: int = 1) -> None:
        """Counts a skip without a note: it is so common that it would displace the others."""
        if (entry := self._entry(trigger)) is not None:
            _count(entry, f"skipped.{reason}", times)

    def record_refusal(
        self, trigger: Trigger, reason: str, *, app_id: str | None = None, keep_note: bool = True
    ) -> None:
        """Counts a refusal.

        `keep_note=False` where any caller could displace the other notes.
        """
        if keep_note:
            self._add_note(trigger, f"refused.{reason}", {"reason": reason, "app_id": app_id})
        elif (entry := self._entry(trigger)) is not None:
            _count(entry, f"refused.{reason}")

    async def write(self) -> None:
        entries, self._entries = self._entries, {}
        for id_, entry in entries.items():
            try:
                await self._store.add_stats(
                    entry.trigger, counts=entry.counts, notes=list(entry.notes), fired_at=entry.fired_at
                )
            except PyMongoError as error:
                log.warning("tally_not_written", extra={"trigger": id_, "error": type(error).__name__})
                if isinstance(error, ConnectionFailure):
                    return  # the others would wait as long for the same server

    async def write_periodically(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            await wait_for_stop(stop, WRITE_INTERVAL_S)
            await self.write()

    def _add_note(self, trigger: Trigger, counter: str, note: Mapping[str, Any]) -> None:
        entry = self._entry(trigger)
        if entry is not None:
            _count(entry, counter)
            entry.notes.add({**{name: value for name, value in note.items() if value}, "at": datetime.now(UTC)})

    def _entry(self, trigger: Trigger) -> _StatsEntry | None:
        found = self._entries.get(trigger.id)
        if found is None and len(self._entries) < MAX_TRIGGERS:
            found = self._entries[trigger.id] = _StatsEntry(trigger)
        return found


def _count(entry: _StatsEntry, name: str, times: int = 1) -> None:
    entry.counts[name] = entry.counts.get(name, 0) + times
