"""The end of another run as a kind of trigger."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from pymongo.asynchronous.database import AsyncDatabase
from ulid import ULID

from triggers.change_stream.outlook import stream_outlook
from triggers.change_stream.stream_ids import ended_runs_stream
from triggers.happening import Happening
from triggers.register.record import Record
from triggers.register.trigger import Trigger
from workers.settings import Settings
from workflows.package.trigger_specs.kinds import TriggerSpec


@dataclass(frozen=True, slots=True)
class RunFinishedKind:
    type: str = "run_finished"
    role: Literal["watcher"] = "watcher"

    def inactive(self, trigger: Trigger, settings: Settings) -> str | None:  # noqa: ARG002 -- the protocol's
        return None

    def only_for_all_apps(self, spec: TriggerSpec) -> str | None:  # noqa: ARG002 -- the protocol's
        """None: a chain stays in the app of the run that has ended."""
        return None

    def at_first(self, trigger: Trigger, now: datetime, before: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
        del trigger, now, before
        return {}

    async def outlook(
        self,
        trigger: Trigger,  # noqa: ARG002 -- the protocol's
        record: Record | None,  # noqa: ARG002 -- the protocol's
        database: AsyncDatabase[dict[str, Any]],
        settings: Settings,
    ) -> Mapping[str, Any]:
        return await stream_outlook(ended_runs_stream(settings.database), database)

    def by_hand(self, trigger: Trigger, app_id: str, event: Mapping[str, Any], now: datetime) -> Happening:
        return Happening(trigger, app_id, f"manual:{ULID()}", now, event)


KIND = RunFinishedKind()
