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

from accounting.infra.aio import gather_all
from triggers.acceptance import Acceptance
from triggers.event_expressions import ExpressionError
from triggers.occurrence import build_run_request
from triggers.register.trigger import Trigger
from triggers.schedule.overlap import BACKFILL_PREFIX
from triggers.schedule.schedule_apps import AppsUnreadableError, iter_app_batches, iter_batches
from triggers.schedule.schedule_triggers import app_source, spec_of
from triggers.schedule.tick_plan import EPOCH, MILLISECOND, nominal_times
from triggers.schedule.ticks import tick_occurrence
from workers.store.run import Accepted, RunRequest
from workers.store.run_store import RunStore
from workers.store.storable import NotStorableError
from workers.store.trigger_runs import TriggerRuns

MAX_RUNS = 10_000
BATCH_SIZE = 200

BackfillOverlap = Literal["one_by_one", "allow"]


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
    def new_runs(self) -> int:
        return self.runs - self.there_already


@dataclass(slots=True)
class BackfillResult:
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
    apps = await _resolve_apps(trigger, app_id, store.database)
    times = _nominal_times(trigger, start, end, max_count=MAX_RUNS // max(len(apps), 1))
    there = 0
    for some in iter_batches(_iter_requests(trigger, times, apps, overlap="allow"), BATCH_SIZE):
        there += await TriggerRuns(store).count_known([request.dedupe_key for request in some])
    return BackfillPlan(trigger, times, apps, there)


async def make_backfill_runs(
    plan: BackfillPlan,
    acceptance: Acceptance,
    *,
    overlap: BackfillOverlap = "one_by_one",
    on_progress: Callable[[int], None] = lambda _done: None,
) -> BackfillResult:
    """Done again after it broke off, it makes what is missing. `told` hears how many are done so far."""
    done = BackfillResult()
    correlation_id = f"{BACKFILL_PREFIX}{ULID()}"
    # In the order of their times: runs that are accepted side by side keep the order in which that began.
    for some in iter_batches(_iter_requests(plan.trigger, plan.times, plan.apps, overlap=overlap), BATCH_SIZE):
        wanted = [replace(request, correlation_id=correlation_id) for request in some]
        for accepted in await gather_all(_accept(acceptance, request) for request in wanted):
            done.created += accepted.created
            done.there_already += not accepted.created
        on_progress(done.created + done.there_already)
    return done


async def _accept(acceptance: Acceptance, request: RunRequest) -> Accepted:
    try:
        return await acceptance.accept(request)
    except NotStorableError as error:
        raise BackfillError(f"no run can be made of {request.trigger.id}: {error}") from None


def _check_range(start: datetime, end: datetime) -> None:
    if start.tzinfo is None or end.tzinfo is None:
        raise BackfillError("the range needs times with an offset, such as 2026-03-01T00:00Z")
    if start > end:
        raise BackfillError(f"the range ends before it begins: {start.isoformat()} is after {end.isoformat()}")


async def _resolve_apps(trigger: Trigger, app_id: str | None, database: AsyncDatabase[dict[str, Any]]) -> Sequence[str]:
    if app_id is not None and app_source(trigger) is None and app_id not in trigger.apps:
        raise BackfillError(f"{trigger.id} is not for {app_id}; its apps are {', '.join(trigger.apps) or 'none'}")
    apps: list[str] = []
    try:
        async for portion in iter_app_batches(trigger, database):
            apps += portion.apps
            if len(apps) > MAX_RUNS and app_id is None:
                raise BackfillError(f"{trigger.id} is for more than {MAX_RUNS} apps; backfill one app at a time")
            if app_id in portion.apps:
                return [str(app_id)]
    except AppsUnreadableError as error:
        raise BackfillError(f"the apps of {trigger.id} cannot be read: {error}") from None
    if app_id is not None:
        raise BackfillError(f"{trigger.id} is not for {app_id}: the collection of its apps does not name it")
    if not apps:
        raise BackfillError(f"{trigger.id} names no apps, so there is nothing to backfill; add apps to it")
    return apps


def _nominal_times(trigger: Trigger, start: datetime, end: datetime, *, max_count: int) -> Sequence[datetime]:
    later = nominal_times(spec_of(trigger), after=max(start, EPOCH) - MILLISECOND)
    found = tuple(islice(takewhile(lambda nominal: nominal <= end, later), max_count + 1))
    if len(found) > max_count:
        raise BackfillError(
            f"this would be more than {MAX_RUNS} runs: ask for a shorter range, which could end before"
            f" {found[-1].isoformat()}, or for one app"
        )
    return found


def _iter_requests(
    trigger: Trigger, times: Sequence[datetime], apps: Sequence[str], *, overlap: BackfillOverlap
) -> Iterator[RunRequest]:
    fired_at = datetime.now(UTC)
    order_key = None if overlap == "allow" else f"backfill/{trigger.label}"
    for nominal in times:
        for app_id in apps:
            happening = tick_occurrence(trigger, app_id, nominal, fired_at=fired_at)
            try:
                yield build_run_request(happening, order_key=order_key, order_seq=order_key and happening.id)
            except ExpressionError as error:
                raise BackfillError(f"no run can be made of {happening.id} for {app_id}: {error}") from None
