"""Backfill: runs for the nominal times of a range, as if each had been a tick.

A run's key is that of the tick: what ran at its time is not run again. The runs of an app go on one after another, the
oldest first, unless somebody asks that they overlap. They go on beside the ticks, and share a correlation id by which
`overlap` knows them: a month that is made up for must neither make ticks skip nor be cancelled by one.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import islice, takewhile
from typing import Any, Literal

from pymongo.asynchronous.database import AsyncDatabase
from ulid import ULID

from triggers.acceptance import Acceptance
from triggers.happening import run_request
from triggers.payload import PayloadError
from triggers.register.trigger import Trigger
from triggers.schedule.apps import AppsUnreadableError, apps_of, in_portions
from triggers.schedule.happenings import tick_of
from triggers.schedule.overlap import BACKFILLED
from triggers.schedule.plan import EPOCH, MILLISECOND, nominal_times
from triggers.schedule.schedules import app_source, spec_of
from workers.store.run import Accepted, RunRequest
from workers.store.run_store import RunStore
from workers.store.storable import NotStorableError
from workers.store.trigger_runs import TriggerRuns
from workers.together import together

MOST_RUNS = 10_000
AT_ONCE = 200

Overlap = Literal["one_by_one", "allow"]


class BackfillError(Exception):
    """What is asked for cannot be done; the text says why and what to ask for instead."""


@dataclass(frozen=True, slots=True)
class BackfillPlan:
    """Each of `times` for each of `apps`, in that order. `there_already` of them ran, or are to run."""

    trigger: Trigger
    times: Sequence[datetime]
    apps: Sequence[str] = field(repr=False)
    there_already: int

    @property
    def runs(self) -> int:
        return len(self.times) * len(self.apps)

    @property
    def new(self) -> int:
        return self.runs - self.there_already


@dataclass(slots=True)
class Backfilled:
    created: int = 0
    there_already: int = 0


async def plan_backfill(
    trigger: Trigger,
    *,
    start: datetime,
    end: datetime,
    store: RunStore,
    app_id: str | None = None,
    now: datetime | None = None,
) -> BackfillPlan:
    """For the nominal times from `start` to `end`, both included; what is not past yet is left to its tick. Changes
    nothing. `app_id`: for this one alone, which has to be one of the trigger's."""
    _check_range(start, end)
    end = min(end, now or datetime.now(UTC))
    apps = await _apps(trigger, app_id, store.database)
    times = _times(trigger, start, end, most=MOST_RUNS // max(len(apps), 1))
    there = 0
    for some in in_portions(_requests(trigger, times, apps, overlap="allow"), AT_ONCE):
        there += await TriggerRuns(store).count_known([request.dedupe_key for request in some])
    return BackfillPlan(trigger, times, apps, there)


async def backfill(
    plan: BackfillPlan,
    acceptance: Acceptance,
    *,
    overlap: Overlap = "one_by_one",
    told: Callable[[int], None] = lambda _done: None,
) -> Backfilled:
    """Done again after it broke off, it makes what is missing. `told` hears how many are done so far."""
    done = Backfilled()
    correlation_id = f"{BACKFILLED}{ULID()}"
    # In the order of their times: runs that are accepted side by side keep the order in which that began.
    for some in in_portions(_requests(plan.trigger, plan.times, plan.apps, overlap=overlap), AT_ONCE):
        wanted = [replace(request, correlation_id=correlation_id) for request in some]
        for accepted in await together(_accepted(acceptance, request) for request in wanted):
            done.created += accepted.created
            done.there_already += not accepted.created
        told(done.created + done.there_already)
    return done


async def _accepted(acceptance: Acceptance, request: RunRequest) -> Accepted:
    try:
        return await acceptance.accept(request)
    except NotStorableError as error:
        raise BackfillError(f"no run can be made of {request.trigger.id}: {error}") from None


def _check_range(start: datetime, end: datetime) -> None:
    if start.tzinfo is None or end.tzinfo is None:
        raise BackfillError("the range needs times with an offset, such as 2026-03-01T00:00Z")
    if start > end:
        raise BackfillError(f"the range ends before it begins: {start.isoformat()} is after {end.isoformat()}")


async def _apps(trigger: Trigger, app_id: str | None, database: AsyncDatabase[dict[str, Any]]) -> Sequence[str]:
    if app_id is not None and app_source(trigger) is None and app_id not in trigger.apps:
        raise BackfillError(f"{trigger.id} is not for {app_id}; its apps are {', '.join(trigger.apps) or 'none'}")
    apps: list[str] = []
    try:
        async for portion in apps_of(trigger, database):
            apps += portion.apps
            if len(apps) > MOST_RUNS and app_id is None:
                raise BackfillError(f"{trigger.id} is for more than {MOST_RUNS} apps; backfill one app at a time")
            if app_id in portion.apps:
                return [str(app_id)]
    except AppsUnreadableError as error:
        raise BackfillError(f"the apps of {trigger.id} cannot be read: {error}") from None
    if app_id is not None:
        raise BackfillError(f"{trigger.id} is not for {app_id}: the collection of its apps does not name it")
    if not apps:
        raise BackfillError(f"{trigger.id} names no apps, so there is nothing to backfill; add apps to it")
    return apps


def _times(trigger: Trigger, start: datetime, end: datetime, *, most: int) -> Sequence[datetime]:
    later = nominal_times(spec_of(trigger), after=max(start, EPOCH) - MILLISECOND)
    found = tuple(islice(takewhile(lambda nominal: nominal <= end, later), most + 1))
    if len(found) > most:
        raise BackfillError(
            f"this would be more than {MOST_RUNS} runs: ask for a shorter range, which could end before"
            f" {found[-1].isoformat()}, or for one app"
        )
    return found


def _requests(
    trigger: Trigger, times: Sequence[datetime], apps: Sequence[str], *, overlap: Overlap
) -> Iterator[RunRequest]:
    fired_at = datetime.now(UTC)
    order_key = None if overlap == "allow" else f"backfill/{trigger.label}"
    for nominal in times:
        for app_id in apps:
            happening = tick_of(trigger, app_id, nominal, fired_at=fired_at)
            try:
                yield run_request(happening, order_key=order_key, order_seq=order_key and happening.id)
            except PayloadError as error:
                raise BackfillError(f"no run can be made of {happening.id} for {app_id}: {error}") from None
