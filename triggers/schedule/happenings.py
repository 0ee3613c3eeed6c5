"""The happening of a schedule: a nominal time for one app, on time, late, in a backfill or by hand."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ulid import ULID

from triggers.happening import Occurrence
from triggers.register.trigger import Trigger


def tick_occurrence(trigger: Trigger, app_id: str, nominal: datetime, *, fired_at: datetime) -> Occurrence:
    """The same id whoever makes it whenever: no nominal time is run twice."""
    at = nominal.isoformat()
    data = {"nominal_at": at, "fired_at": fired_at.isoformat(), "app_id": app_id}
    return Occurrence(trigger, app_id, at, fired_at, data, nominal_at=nominal)


def manual_tick_occurrence(trigger: Trigger, app_id: str, event: Mapping[str, Any], now: datetime) -> Occurrence:
    at = now.isoformat()
    data = {"nominal_at": at, "fired_at": at, "app_id": app_id, **event}
    return Occurrence(trigger, app_id, f"manual:{ULID()}", now, data)
