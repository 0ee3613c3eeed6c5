"""Skips: nominal times that started no run, each with its reason."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from triggers.register.notes import Notes
from triggers.schedule.plan import MissedTimes, TickPlan

# Beside `late`, `superseded`, `over_max` and `paused`, which a plan tells.
OVERLAP = "overlap"
BUFFER_FULL = "buffer_full"
UNMAPPABLE = "unmappable"
NOT_STORABLE = "not_storable"
NO_APPS = "no_apps"
UNUSABLE_APP = "unusable_app"
APPS_UNREADABLE = "apps_unreadable"
NO_WORKFLOW = "no_workflow"  # no package has it, or none that can be started
SHADOWED = "shadowed"  # by a package's trigger of the same name


@dataclass(frozen=True, slots=True)
class Skip:
    """Ticks from `nominal_at` to `until` that started no run; `app_id` None means no app's."""

    reason: str
    nominal_at: datetime
    app_id: str | None = None
    count: int = 1
    until: datetime | None = None
    exact: bool = True
    detail: str = ""

    def as_note(self) -> dict[str, Any]:
        """Without when it was written."""
        said = {
            "reason": self.reason,
            "app_id": self.app_id,
            "nominal_at": self.nominal_at,
            "until": self.until,
            "times": self.count if self.count > 1 else None,
            "exact": None if self.exact else False,
            "detail": self.detail[:300] or None,
        }
        return {name: value for name, value in said.items() if value is not None}


def missed_skips(missed_times: MissedTimes | None) -> list[Skip]:
    if missed_times is None:
        return []
    return [Skip(missed_times.reason, missed_times.first, count=missed_times.count, until=missed_times.last, exact=missed_times.exact)]


def skips_of_plan(plan: TickPlan, reason: str, detail: str = "") -> list[Skip]:
    """What a plan fires, for no app at all."""
    return [Skip(reason, nominal, detail=detail) for nominal in plan.fire_times]


class Skips:
    """Of one firing: all are counted, and of ten thousand apps times a thousand ticks only the newest are kept."""

    def __init__(self, skips: Iterable[Skip] = ()) -> None:
        self.notes = Notes()
        self._counts: dict[str, int] = {}
        self._last: dict[str, Skip] = {}
        self.add(skips)

    @property
    def counts(self) -> Mapping[str, int]:
        return self._counts

    @property
    def last_by_reason(self) -> Mapping[str, Skip]:
        """Of each reason."""
        return self._last

    def add(self, skips: Iterable[Skip]) -> None:
        for skip in skips:
            self.notes.add(skip.as_note())
            self._counts[skip.reason] = self._counts.get(skip.reason, 0) + skip.count
            self._last[skip.reason] = skip
