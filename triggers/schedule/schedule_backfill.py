"""Backfill: creates the runs of past nominal times, as if each had ticked.

A run has the dedupe key of its tick, so a time that ran does not run again. The runs of an app go one after another,
oldest first, unless overlap is requested. They run concurrently with ticks. By their correlation id `overlap` ignores
them: a backfill must neither make ticks skip nor be cancelled by one.
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
from triggers.schedule.tick_requests import tick_occurrence
from workers.store.run import Accepted, RunRequest
from workers.store.run_store import RunStore
from workers.store.storable import NotStorableError
from workers.store.trigger_runs import TriggerRuns

MAX_RUNS = 10_000
BATCH_SIZE = 200

BackfillOverlap = Literal["one_by_one", "allow"]


class BackfillError(Exception):
    """The backfill is not possible; the text has the reason and an alternative."""


@dataclass(frozen=True, slots=True)
class BackfillPlan:
    """Each of `times` for each of `apps`, in that order.

    `there_already` of these runs exist.
    """

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
    max_runs: int = MAX_RUNS,
) -> BackfillPlan:
    """Plans the past nominal times from `start` to `end`, both included.

    Changes nothing.

    Future times are left to their ticks. `app_id` limits the plan to one of the trigger's apps.
    """
    _check_range(start, end)
    end = min(end, now or datetime.now(UTC))
    apps = await _resolve_apps(trigger, app_id, store.database, max_runs=max_runs)
    times = _nominal_times(trigger, start, end, max_runs=max_runs, app_count=len(apps))
    existing = 0
    for batch in iter_batches(_iter_requests(trigger, times, apps, overlap="allow"), BATCH_SIZE):
        keys = [request.dedupe_key for request in batch]
        existing += await TriggerRuns(store).count_known(keys)
    return BackfillPlan(trigger, times, apps, existing)


async def make_backfill_runs(
    plan: BackfillPlan,
    acceptance: Acceptance,
    *,
    overlap: BackfillOverlap = "one_by_one",
    on_progress: Callable[[int], None] = lambda _done: None,
) -> BackfillResult:
    """Creates the runs that are missing.

    Calls `on_progress` with the number done so far.
    """
    result = BackfillResult()
    correlation_id = f"{BACKFILL_PREFIX}{ULID()}"
    # In the order of their times: runs that are accepted concurrently keep the order in which that began.
    for batch in iter_batches(_iter_requests(plan.trigger, plan.times, plan.apps, overlap=overlap), BATCH_SIZE):
        requests = [replace(request, correlation_id=correlation_id) for request in batch]
        for accepted in await gather_all(_accept(acceptance, request) for request in requests):
            result.created += accepted.created
            result.there_already += not accepted.created
        on_progress(result.created + result.there_already)
    return result


async def _accept(acceptance: Acceptance, request: RunRequest) -> Accepted:
    try:
        return await acceptance.accept(request)
    except NotStorableError as error:
        raise BackfillError(f"no run can be created for {request.trigger.id}: {error}") from None


def _check_range(start: datetime, end: datetime) -> None:
    if start.tzinfo is None or end.tzinfo is None:
        raise BackfillError("the range needs times with an offset, such as 2026-03-01T00:00Z")
    if start > end:
        raise BackfillError(f"the range ends before it begins: {start.isoformat()} is after {end.isoformat()}")


async def _resolve_apps(
    trigger: Trigger, app_id: str | None, database: AsyncDatabase[dict[str, Any]], *, max_runs: int
) -> Sequence[str]:
    if app_id is not None and app_source(trigger) is None and app_id not in trigger.apps:
        raise BackfillError(f"{trigger.id} is not for {app_id}; its apps are {', '.join(trigger.apps) or 'none'}")
    apps: list[str] = []
    try:
        async for batch in iter_app_batches(trigger, database):
            apps += batch.apps
            if len(apps) > max_runs and app_id is None:
                raise BackfillError(f"{trigger.id} is for more than {max_runs} apps; backfill one app at a time")
            if app_id in batch.apps:
                return [str(app_id)]
    except AppsUnreadableError as error:
        raise BackfillError(f"the apps of {trigger.id} cannot be read: {error}") from None
    if app_id is not None:
        raise BackfillError(f"{trigger.id} is not for {app_id}: the collection of its apps does not name it")
    if not apps:
        raise BackfillError(f"{trigger.id} names no apps, so there is nothing to backfill; add apps to it")
    return apps


def _nominal_times(
    trigger: Trigger, start: datetime, end: datetime, *, max_runs: int, app_count: int
) -> Sequence[datetime]:
    max_count = max_runs // max(app_count, 1)
    later = nominal_times(spec_of(trigger), after=max(start, EPOCH) - MILLISECOND)
    found = tuple(islice(takewhile(lambda nominal: nominal <= end, later), max_count + 1))
    if len(found) > max_count:
        raise BackfillError(
            f"this would be more than {max_runs} runs: ask for a shorter range, which could end before"
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
            occurrence = tick_occurrence(trigger, app_id, nominal, fired_at=fired_at)
            try:
                yield build_run_request(occurrence, order_key=order_key, order_seq=order_key and occurrence.id)
            except ExpressionError as error:
                raise BackfillError(f"no run can be created for {occurrence.id} and {app_id}: {error}") from None
