"""Readers: from the triggers that are known to the streams that are read for them."""

from collections.abc import Sequence
from typing import Any

from pymongo.asynchronous.database import AsyncDatabase

from triggers.change_stream.intake import ChangeIntake
from triggers.change_stream.keeper import Reader
from triggers.change_stream.known import Known
from triggers.change_stream.loop_guard import LoopGuards
from triggers.change_stream.plan import by_stream, plan_of
from triggers.change_stream.starting import Starting
from triggers.run_finished.intake import EndedRunsIntake
from triggers.run_finished.plan import ended_runs_plan
from workers.store.run_store import RunStore


class Readers:
    """Loop guards outlive the readers: they remember what happened before a trigger was edited."""

    def __init__(self, starting: Starting, database: AsyncDatabase[dict[str, Any]]) -> None:
        self._starting = starting
        self._database = database
        self._guards = LoopGuards()

    def __call__(self, known: Known) -> Sequence[Reader]:
        own_database = self._database.name
        readers = [
            Reader(
                plan_of(stream, watches, own_database=own_database),
                ChangeIntake(watches, self._starting, self._guards),
            )
            for stream, watches in by_stream(known.watches, own_database=own_database).items()
        ]
        if known.chains:
            intake = EndedRunsIntake(known.chains, self._starting, RunStore(self._database))
            readers.append(Reader(ended_runs_plan(known.chains, own_database=own_database), intake))
        return readers
