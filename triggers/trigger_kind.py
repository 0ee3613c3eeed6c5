"""The protocol of a trigger's kind. A new kind is one folder with a `kind.py`, a spec beside the others in
`workflows/package/trigger_specs/`, and its line in `triggers/kind_registry.py`; the role it names serves it.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, Protocol

from pymongo.asynchronous.database import AsyncDatabase

from triggers.occurrence import Occurrence
from triggers.register.trigger import Trigger
from triggers.register.trigger_record import TriggerRecord
from workers.settings import Settings
from workflows.package.trigger_specs.trigger_spec import TriggerSpec

Role = Literal["scheduler", "watcher", "gateway"]


class TriggerKind(Protocol):
    @property
    def type(self) -> str:
        """As packages and documents name it."""

    @property
    def role(self) -> Role:
        """Which process serves it."""

    def inactive_reason(self, trigger: Trigger, settings: Settings) -> str | None:
        """Why it starts nothing whatever happens, in words for whoever wrote it; None when it may start runs."""

    def app_key_refusal(self, spec: TriggerSpec) -> str | None:
        """Why an API key of one app may not make such a trigger; None when it may."""

    def initial_fields(
        self, trigger: Trigger, now: datetime, before: Mapping[str, Any] | None = None
    ) -> Mapping[str, Any]:
        """What its document says from the moment it is made at run time, beside the spec; or is edited, and then
        `before` is the document as it was."""

    async def describe(
        self,
        trigger: Trigger,
        record: TriggerRecord | None,
        database: AsyncDatabase[dict[str, Any]],
        settings: Settings,
    ) -> Mapping[str, Any]:
        """What `triggers show` tells of it beside what all kinds have: next times, a stream's position, an address."""

    def manual_event(self, trigger: Trigger, app_id: str, event: Mapping[str, Any], now: datetime) -> Occurrence:
        """What `triggers fire` starts: `event` is what the caller gave in the place of the real one, or nothing."""
