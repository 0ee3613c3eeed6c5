"""Tick plans: which nominal times fire now, and which were missed and why.

These are pure functions of spec and clock. A year of downtime costs no more than an hour: intervals are computed, and
cron times are found by bisection and read in bounded numbers.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count, islice, takewhile
from typing import Any

from triggers.register.skip_notes import Notes
from workflows.package.cron.fire_times import iter_fires_after
from workflows.package.trigger_specs.schedule_spec import ScheduleSpec

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)  # the store's precision
MAX_FIRED_AT_ONCE = 1000  # of those on time; the next plan has the rest
MAX_COUNTED = 1000  # missed cron times are counted one by one

SKIPPED = "late"  # policy skip
SUPERSEDED = "superseded"  # policy latest, and a newer one fired
OVER_MAX = "over_max"  # policy all, and `max` newer ones fired
PAUSED = "paused"
_REASONS = {"skip": SKIPPED, "latest": SUPERSEDED, "all": OVER_MAX}

# Reasons beside `late`, `superseded`, `over_max` and `paused`, which come from a plan.
OVERLAP = "overlap"
BUFFER_FULL = "buffer_full"
UNMAPPABLE = "unmappable"
NOT_STORABLE = "not_storable"
NO_APPS = "no_apps"
UNUSABLE_APP = "unusable_app"
APPS_UNREADABLE = "apps_unreadable"
NO_WORKFLOW = "no_workflow"  # no started package has it
SHADOWED = "shadowed"  # by a package's trigger of the same name


@dataclass(frozen=True, slots=True)
class MissedTimes:
    """Late nominal times that do not fire.

    `exact` is false when there are more than were counted.
    """

    count: int
    reason: str
    first: datetime
    last: datetime
    exact: bool = True


@dataclass(frozen=True, slots=True)
class TickPlan:
    fire_times: tuple[datetime, ...]
    late: int  # how many of `fire_times`, from the first, are older than the grace
    missed: MissedTimes | None
    next_at: datetime | None  # None: the schedule ends


def nominal_times(spec: ScheduleSpec, *, after: datetime) -> Iterator[datetime]:
    """Yields all nominal times later than `after`, within the spec's range."""
    if spec.starts_at is not None:
        after = max(after, _to_store_precision(spec.starts_at) - MILLISECOND)
    times = _iter_times(spec, after)
    return times if spec.ends_at is None else takewhile(_is_not_after(spec.ends_at), times)


def next_nominal(spec: ScheduleSpec, *, after: datetime) -> datetime | None:
    return next(nominal_times(spec, after=after), None)


def plan_tick(spec: ScheduleSpec, *, due: datetime, now: datetime) -> TickPlan:
    """Plans from the stored next time `due`.

    Times older than the grace follow the misfire policy.
    """
    now = _to_store_precision(now)
    if due > now:
        return TickPlan((), 0, None, due)
    following = next_nominal(spec, after=due)
    if due >= now - spec.misfire.grace and (following is None or following > now):
        return TickPlan((due,), 0, None, following)  # the usual case: one time, on time
    on_time_from = max(due, now - spec.misfire.grace)
    late = _late_times(spec, first=due, before=on_time_from)
    late_until = late[0] if late else on_time_from
    missed = _missed_times(spec, first=due, before=late_until, reason=_REASONS[spec.misfire.policy])
    on_time = _times_between(spec, on_time_from, now, limit=MAX_FIRED_AT_ONCE)
    fire = (*late, *on_time)
    if len(on_time) == MAX_FIRED_AT_ONCE:
        return TickPlan(fire, len(late), missed, next_nominal(spec, after=on_time[-1]))
    return TickPlan(fire, len(late), missed, next_nominal(spec, after=now))


def skip_paused(spec: ScheduleSpec, *, due: datetime, until: datetime) -> tuple[MissedTimes | None, datetime | None]:
    """Returns the times within a pause, which never fire, and the first one after it."""
    until = _to_store_precision(until)
    return _missed_times(spec, first=due, before=until + MILLISECOND, reason=PAUSED), next_nominal(spec, after=until)


def _iter_times(spec: ScheduleSpec, after: datetime) -> Iterator[datetime]:
    if spec.cron is not None:
        yield from iter_fires_after(spec.cron, spec.timezone, after)
    elif spec.at_utc is not None:
        if _to_store_precision(spec.at_utc) > after:
            yield _to_store_precision(spec.at_utc)
    else:
        step = _step(spec)
        for number in count((after - EPOCH) // step + 1):
            yield EPOCH + number * step


def _is_not_after(end: datetime) -> Callable[[datetime], bool]:
    return lambda nominal: nominal <= end


def _to_store_precision(time: datetime) -> datetime:
    """Truncates to the precision of the store."""
    return time.astimezone(UTC) - timedelta(microseconds=time.microsecond % 1000)


def _late_times(spec: ScheduleSpec, *, first: datetime, before: datetime) -> tuple[datetime, ...]:
    count = {"skip": 0, "latest": 1, "all": spec.misfire.max}[spec.misfire.policy]
    if first >= before or count == 0:
        return ()
    return _newest_times(spec, first, before, count)


def _missed_times(spec: ScheduleSpec, *, first: datetime, before: datetime, reason: str) -> MissedTimes | None:
    if first >= before:
        return None
    newest = _newest_times(spec, first, before, 1)
    if not newest:  # the zone's rules changed since the time was stored
        return None
    last = newest[-1]
    if spec.every is not None:
        return MissedTimes((last - first) // _step(spec) + 1, reason, first, last)
    counted = len(_times_between(spec, first, last, limit=MAX_COUNTED + 1))
    return MissedTimes(min(counted, MAX_COUNTED), reason, first, last, exact=counted <= MAX_COUNTED)


def _newest_times(spec: ScheduleSpec, first: datetime, before: datetime, count: int) -> tuple[datetime, ...]:
    """Returns the newest `count` nominal times in [first, before), oldest first.

    `first` is a nominal time.
    """
    end = before - MILLISECOND
    if spec.ends_at is not None:
        end = min(end, _to_store_precision(spec.ends_at))
    if spec.every is not None:
        step = _step(spec)
        newest = (end - EPOCH) // step
        oldest = max(newest - count + 1, (first - EPOCH) // step)
        return tuple(EPOCH + number * step for number in range(oldest, newest + 1))
    return _times_between(spec, _oldest_start(spec, first, end, count), end, limit=count)


def _oldest_start(spec: ScheduleSpec, first: datetime, end: datetime, count: int) -> datetime:
    """Returns the latest second with `count` nominal times until `end`."""
    low, high = 0, int((end - first).total_seconds()) + 1
    while low < high:
        middle = (low + high + 1) // 2
        if len(_times_between(spec, first + timedelta(seconds=middle), end, limit=count)) == count:
            low = middle
        else:
            high = middle - 1
    return first + timedelta(seconds=low)


def _times_between(spec: ScheduleSpec, start: datetime, end: datetime, *, limit: int) -> tuple[datetime, ...]:
    """Returns the first `limit` nominal times in [start, end]."""
    times = nominal_times(spec, after=start - MILLISECOND)
    return tuple(islice(takewhile(lambda nominal: nominal <= end, times), limit))


def _step(spec: ScheduleSpec) -> timedelta:
    """Rounds to whole milliseconds, so that a nominal time stays equal when stored."""
    every = spec.every or timedelta(seconds=1)
    return every // MILLISECOND * MILLISECOND


@dataclass(frozen=True, slots=True)
class Skip:
    """Ticks from `nominal_at` to `until` that started no run for an app, or any."""

    reason: str
    nominal_at: datetime
    app_id: str | None = None
    count: int = 1
    until: datetime | None = None
    exact: bool = True
    detail: str = ""

    def as_note(self) -> dict[str, Any]:
        """Builds the note; its writer adds the time."""
        fields = {
            "reason": self.reason,
            "app_id": self.app_id,
            "nominal_at": self.nominal_at,
            "until": self.until,
            "times": self.count if self.count > 1 else None,
            "exact": None if self.exact else False,
            "detail": self.detail[:300] or None,
        }
        return {name: value for name, value in fields.items() if value is not None}


def missed_skips(missed_times: MissedTimes | None) -> list[Skip]:
    if missed_times is None:
        return []
    return [
        Skip(
            missed_times.reason,
            missed_times.first,
            count=missed_times.count,
            until=missed_times.last,
            exact=missed_times.exact,
        )
    ]


def skips_of_plan(plan: TickPlan, reason: str, detail: str = "") -> list[Skip]:
    """Skips all times of a plan, for all apps."""
    return [Skip(reason, nominal, detail=detail) for nominal in plan.fire_times]


class Skips:
    """The skips of one fire.

    All are counted; of ten thousand apps and a thousand ticks the newest are kept.
    """

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
        """The newest skip of each reason."""
        return self._last

    def add(self, skips: Iterable[Skip]) -> None:
        for skip in skips:
            self.notes.add(skip.as_note())
            self._counts[skip.reason] = self._counts.get(skip.reason, 0) + skip.count
            self._last[skip.reason] = skip
