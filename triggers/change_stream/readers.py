"""Readers: from the triggers that are known to the streams that are read for them."""

from collections.abc import Sequence
from typing import Any

from pymongo.asynchronous.database import AsyncDatabase

from triggers.change_stream.intake import ChangeIntake
from triggers.change_stream.keeper import Subscription
from triggers.change_stream.known import TriggerSnapshot
from triggers.change_stream.loop_guard import LoopGuards
from triggers.change_stream.plan import group_by_stream, plan_stream
from triggers.change_stream.starting import RunStarter
from triggers.run_finished.intake import EndedRunsIntake
from triggers.run_finished.plan import RUNS_COLLECTION, plan_ended_runs_stream


class SubscriptionBuilder:
    """Loop guards outlive the readers: they remember what happened before a trigger was edited."""

    def __init__(self, starter: RunStarter, database: AsyncDatabase[dict[str, Any]]) -> None:
        self._starter = starter
        self._database = database
        self._guards = LoopGuards()

    def __call__(self, snapshot: TriggerSnapshot) -> Sequence[Subscription]:
        own_database = self._database.name
        readers = [
            Subscription(
                plan_stream(stream, watches, own_database=own_database),
                ChangeIntake(watches, self._starter, self._guards),
            )
            for stream, watches in group_by_stream(snapshot.change_triggers, own_database=own_database).items()
        ]
        if snapshot.chains:
            intake = EndedRunsIntake(snapshot.chains, self._starter, self._database[RUNS_COLLECTION])
            readers.append(Subscription(plan_ended_runs_stream(snapshot.chains, own_database=own_database), intake))
        return readers
