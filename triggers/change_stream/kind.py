"""A change in MongoDB as a kind of trigger."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from pymongo.asynchronous.database import AsyncDatabase
from ulid import ULID

from triggers.change_stream.outlook import missing_images, stream_outlook
from triggers.change_stream.stream_ids import stream_of
from triggers.change_stream.watches import inactive_because
from triggers.happening import Happening
from triggers.register.record import Record
from triggers.register.trigger import Trigger
from workers.settings import Settings
from workflows.package.trigger_specs.change import ChangeSpec
from workflows.package.trigger_specs.kinds import TriggerSpec


@dataclass(frozen=True, slots=True)
class ChangeKind:
    type: str = "database_condition"
    role: Literal["watcher"] = "watcher"

    def inactive(self, trigger: Trigger, settings: Settings) -> str | None:
        return inactive_because(trigger, own_database=settings.database)

    def only_for_all_apps(self, spec: TriggerSpec) -> str | None:  # noqa: ARG002 -- the protocol's
        return "a change stream reads what belongs to other apps too; ask for it with a key of all apps"

    def at_first(self, trigger: Trigger, now: datetime, before: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
        del trigger, now, before
        return {}

    async def outlook(
        self,
        trigger: Trigger,
        record: Record | None,  # noqa: ARG002 -- the protocol's
        database: AsyncDatabase[dict[str, Any]],
        settings: Settings,
    ) -> Mapping[str, Any]:
        stream = stream_of(trigger, own_database=settings.database)
        if stream is None or not isinstance(trigger.spec, ChangeSpec):
            return {}
        told = await stream_outlook(stream, database)
        warning = await missing_images(trigger.spec, database)
        return told if warning is None else {**told, "warning": warning}

    def by_hand(self, trigger: Trigger, app_id: str, event: Mapping[str, Any], now: datetime) -> Happening:
        return Happening(trigger, app_id, f"manual:{ULID()}", now, event)


KIND = ChangeKind()
