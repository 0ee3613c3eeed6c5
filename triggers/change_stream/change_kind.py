"""The kind `database_condition`: a change in MongoDB."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from pymongo.asynchronous.database import AsyncDatabase
from ulid import ULID

from triggers.change_stream.stream_plan import stream_id_of
from triggers.change_stream.stream_status import describe_stream, missing_images_hint
from triggers.change_stream.watched_triggers import inactive_reason
from triggers.occurrence import Occurrence
from triggers.register.trigger import Trigger
from triggers.register.trigger_record import TriggerRecord
from workers.settings import Settings
from workflows.package.trigger_specs.change_spec import ChangeSpec
from workflows.package.trigger_specs.trigger_spec import TriggerSpec


@dataclass(frozen=True, slots=True)
class ChangeKind:
    type: str = "database_condition"
    role: Literal["watcher"] = "watcher"

    def inactive_reason(self, trigger: Trigger, settings: Settings) -> str | None:
        return inactive_reason(trigger, own_database=settings.database)

    def app_key_refusal(self, spec: TriggerSpec) -> str | None:  # noqa: ARG002 -- the protocol's
        return "a change stream reads the data of other apps too; use a key for all apps"

    def initial_fields(
        self, trigger: Trigger, now: datetime, before: Mapping[str, Any] | None = None
    ) -> Mapping[str, Any]:
        del trigger, now, before
        return {}

    async def describe(
        self,
        trigger: Trigger,
        record: TriggerRecord | None,  # noqa: ARG002 -- the protocol's
        database: AsyncDatabase[dict[str, Any]],
        settings: Settings,
    ) -> Mapping[str, Any]:
        stream = stream_id_of(trigger, own_database=settings.database)
        if stream is None or not isinstance(trigger.spec, ChangeSpec):
            return {}
        facts = await describe_stream(stream, database)
        warning = await missing_images_hint(trigger.spec, database)
        return facts if warning is None else {**facts, "warning": warning}

    def manual_event(self, trigger: Trigger, app_id: str, event: Mapping[str, Any], now: datetime) -> Occurrence:
        return Occurrence(trigger, app_id, f"manual:{ULID()}", now, event)


KIND = ChangeKind()
