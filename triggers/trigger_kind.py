"""The protocol of a trigger kind.

A new kind is a folder with a `<name>_kind.py`, a spec in `workflows/package/trigger_specs/`, and a line in
`triggers/kind_registry.py`. The role that it names serves it.
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
        """The name in packages and documents."""

    @property
    def role(self) -> Role:
        """The process that serves triggers of this kind."""

    def inactive_reason(self, trigger: Trigger, settings: Settings) -> str | None:
        """Returns why the trigger can never start a run; None for an active one."""

    def app_key_refusal(self, spec: TriggerSpec) -> str | None:
        """Returns why a key of one app may not create such a trigger, or None."""

    def initial_fields(
        self, trigger: Trigger, now: datetime, before: Mapping[str, Any] | None = None
    ) -> Mapping[str, Any]:
        """Returns the fields to store on creation, or on the edit of `before`."""

    async def describe(
        self,
        trigger: Trigger,
        record: TriggerRecord | None,
        database: AsyncDatabase[dict[str, Any]],
        settings: Settings,
    ) -> Mapping[str, Any]:
        """Returns what `triggers show` adds: next times, a position, an address."""

    def manual_event(self, trigger: Trigger, app_id: str, event: Mapping[str, Any], now: datetime) -> Occurrence:
        """Builds the occurrence for `triggers fire`.

        `event` replaces the real event; it may be empty.
        """
