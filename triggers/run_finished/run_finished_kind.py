"""The kind `run_finished`: the end of another run."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from pymongo.asynchronous.database import AsyncDatabase
from ulid import ULID

from triggers.change_stream.stream_plan import ended_runs_stream_id
from triggers.change_stream.stream_status import describe_stream
from triggers.occurrence import Occurrence
from triggers.register.trigger import Trigger
from triggers.register.trigger_record import TriggerRecord
from workers.settings import Settings
from workflows.package.trigger_specs.trigger_spec import TriggerSpec


@dataclass(frozen=True, slots=True)
class RunFinishedKind:
    type: str = "run_finished"
    role: Literal["watcher"] = "watcher"

    def inactive_reason(self, trigger: Trigger, settings: Settings) -> str | None:  # noqa: ARG002 -- the protocol's
        return None

    def app_key_refusal(self, spec: TriggerSpec) -> str | None:  # noqa: ARG002 -- the protocol's
        """Refuses no key: a chain stays in the app of the run that has ended."""
        return None

    def initial_fields(
        self, trigger: Trigger, now: datetime, before: Mapping[str, Any] | None = None
    ) -> Mapping[str, Any]:
        del trigger, now, before
        return {}

    async def describe(
        self,
        trigger: Trigger,  # noqa: ARG002 -- the protocol's
        record: TriggerRecord | None,  # noqa: ARG002 -- the protocol's
        database: AsyncDatabase[dict[str, Any]],
        settings: Settings,
    ) -> Mapping[str, Any]:
        return await describe_stream(ended_runs_stream_id(settings.database), database)

    def manual_event(self, trigger: Trigger, app_id: str, event: Mapping[str, Any], now: datetime) -> Occurrence:
        return Occurrence(trigger, app_id, f"manual:{ULID()}", now, event)


KIND = RunFinishedKind()
