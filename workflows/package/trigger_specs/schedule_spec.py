"""The spec of schedules: cron, interval or one moment.

It also decides about late and overlapping ticks.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from workflows.package.cron.fire_times import check_cron
from workflows.package.trigger_specs.base_spec import BaseTrigger, is_expression
from workflows.package.trigger_specs.spec_field_types import (
    UNION_TAGS,
    DateTimeValue,
    Duration,
    Name,
    Spec,
    SpecFieldError,
    Zone,
    to_utc,
)

_CLOCK_FIELDS = ("cron", "every", "at")
_MIN_INTERVAL = timedelta(seconds=1)
_YEARS = range(1970, 3000)
LIST_TAG, COLLECTION_TAG = UNION_TAGS


def _check_cron(cron: str, timezone: str) -> None:
    try:
        check_cron(cron, timezone)
    except ValueError as error:
        raise SpecFieldError("cron", str(error)) from None


class Misfire(Spec):
    grace: Duration = Field(default=timedelta(seconds=60), json_schema_extra={"default": "60s"})
    policy: Literal["skip", "latest", "all"] = "latest"
    max: int = Field(default=10, ge=1, le=1000)


class AppsOfCollection(Spec):
    """Selects one app per document, named by a field of it. Read again at each tick."""

    collection: str = Field(min_length=1)
    database: str | None = None  # default: the database of Unattended
    app_field: str = Field(default="_id", min_length=1, alias="field")
    filter: dict[str, Any] = Field(default_factory=dict)


def _discriminate_apps(value: object) -> str:
    return COLLECTION_TAG if isinstance(value, Mapping | AppsOfCollection) else LIST_TAG


Apps = Annotated[
    Annotated[tuple[Name, ...], Tag(LIST_TAG)] | Annotated[AppsOfCollection, Tag(COLLECTION_TAG)],
    Discriminator(_discriminate_apps),
]


class ScheduleSpec(BaseTrigger):
    type: Literal["schedule"] = "schedule"
    apps: Apps = ()  # type: ignore[assignment]  # wider than any other trigger's
    cron: str | None = None
    every: Duration | None = None
    at: DateTimeValue | None = Field(default=None, description="Once")
    timezone: Zone = "UTC"
    start: DateTimeValue | None = Field(default=None, description="No tick before it")
    end: DateTimeValue | None = Field(default=None, description="No tick after it")
    overlap: Literal["skip", "buffer_one", "allow", "cancel_previous"] = "skip"
    misfire: Misfire = Misfire()
    jitter: Duration = Field(default=timedelta(0), json_schema_extra={"default": "0s"})
    pause_after_failures: int | None = Field(default=None, ge=1, le=1000, description="In a row, of one app")

    @model_validator(mode="after")
    def _check_clock(self) -> "ScheduleSpec":
        clocks = [clock for clock in _CLOCK_FIELDS if getattr(self, clock) is not None]
        if not clocks:
            raise ValueError("give one of cron, every and at")
        if len(clocks) > 1:
            raise SpecFieldError(clocks[1], "give only one of cron, every and at")
        if self.every is not None and self.every < _MIN_INTERVAL:
            raise SpecFieldError("every", "every must be at least 1s")
        if self.cron is not None:
            _check_cron(self.cron, self.timezone)
        return self

    @model_validator(mode="after")
    def _check_calendar(self) -> "ScheduleSpec":
        for field in ("at", "start", "end"):
            moment: datetime | None = getattr(self, field)
            if moment is not None and moment.year not in _YEARS:
                raise SpecFieldError(field, f"write a time in the years {_YEARS[0]} to {_YEARS[-1]}")
        return self

    @model_validator(mode="after")
    def _check_fires(self) -> "ScheduleSpec":
        if self.starts_at is not None and self.ends_at is not None and self.ends_at <= self.starts_at:
            raise SpecFieldError("end", "end must be after start")
        if self.at_utc is not None and not self._is_in_range(self.at_utc):
            raise SpecFieldError("at", "is before start or after end, so it never fires; remove start and end")
        if self.misfire.policy == "skip" and self.misfire.grace < _MIN_INTERVAL:
            # The scheduler sees every tick some milliseconds late.
            raise SpecFieldError(
                "misfire", "with policy skip the grace must be at least 1s; otherwise no tick ever fires"
            )
        if is_expression(self.app_id):
            raise SpecFieldError("app_id", "must be a name: a tick has no event for an expression; or use apps")
        return self

    def _is_in_range(self, time: datetime) -> bool:
        starts_at, ends_at = self.starts_at, self.ends_at
        return (starts_at is None or starts_at <= time) and (ends_at is None or time <= ends_at)

    @property
    def at_utc(self) -> datetime | None:
        return None if self.at is None else to_utc(self.at, self.timezone)

    @property
    def starts_at(self) -> datetime | None:
        return None if self.start is None else to_utc(self.start, self.timezone)

    @property
    def ends_at(self) -> datetime | None:
        return None if self.end is None else to_utc(self.end, self.timezone)

    @property
    def listed_apps(self) -> tuple[str, ...]:
        app = self.literal_app
        if app is not None:
            return (app,)
        return () if isinstance(self.apps, AppsOfCollection) else self.apps
