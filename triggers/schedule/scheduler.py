"""The scheduler: turns due nominal times into runs, each once however many schedulers there are.

1. `_sync`: the store knows every schedule that the packages declare.
2. `_plan_and_fire`: the misfire policy says which nominal times fire.
3. `_start`: one run per app; the nominal time is part of the dedupe key, so a second scheduler, or this one
   after a crash, finds the run already there.
4. Only then `advance`. A crash in between repeats the tick, which changes nothing; the other order would lose it.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Protocol

from pymongo.errors import OperationFailure

from triggers.acceptance import Acceptance
from triggers.payload import PayloadError, resolve, resolve_text
from triggers.schedule.metrics import ScheduleMetrics
from triggers.schedule.plan import Plan, plan_tick
from triggers.schedule.schedules import Schedule, declared_schedules
from triggers.schedule.store import MAX_DUE, Due, ScheduleStore, Skip
from workers.store.run import RunRequest, TriggerEvent
from workers.store.storable import NotStorableError
from workers.together import together
from workflows.package.models import Package

log = logging.getLogger(__name__)

IDLE_S = 0.5
SYNC_INTERVAL = timedelta(seconds=30)  # re-arms a schedule whose document somebody deleted
SIDE_BY_SIDE = 32

OVERLAP = "overlap"
UNMAPPABLE = "unmappable"


class Runs(Protocol):
    async def has_unfinished(self, *, workflow: str, trigger: str, app_id: str, other_than: str) -> bool:
        """Whether a run of this trigger and app still goes on, apart from the one with that dedupe key."""


class Scheduler:
    def __init__(
        self,
        store: ScheduleStore,
        *,
        runs: Runs,
        acceptance: Acceptance,
        packages: Callable[[], Mapping[str, Package]],
        metrics: ScheduleMetrics,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._store = store
        self._runs = runs
        self._acceptance = acceptance
        self._packages = packages
        self._metrics = metrics
        self._clock = clock
        self._declared: dict[str, Schedule] = {}
        self._active: dict[str, Schedule] = {}
        self._synced_at: datetime | None = None

    async def tick(self) -> float:
        """Fires what is due; returns the seconds until the next look."""
        now = self._clock()
        await self._sync(now)
        upcoming = await self._store.upcoming(now + timedelta(seconds=IDLE_S))
        due = [each for each in upcoming if each.next_at <= now]
        waiting = iter(due)
        while group := list(islice(waiting, SIDE_BY_SIDE)):
            await together(self._fire(each, now) for each in group)
        if len(due) == MAX_DUE:
            return 0
        later = [each.next_at for each in upcoming if each.next_at > now]
        return max(0.0, (min(later) - self._clock()).total_seconds()) if later else IDLE_S

    async def _sync(self, now: datetime) -> None:
        declared = declared_schedules(self._packages())
        recent = self._synced_at is not None and abs(now - self._synced_at) < SYNC_INTERVAL
        if declared == self._declared and recent:
            return
        active = {id_: schedule for id_, schedule in declared.items() if schedule.apps}
        await self._store.sync(active, now)
        for id_ in declared.keys() - active.keys():
            if declared[id_] != self._declared.get(id_):
                log.warning("schedule_inactive", extra={"trigger": id_, "reason": "no apps"})
        for id_ in self._active.keys() - active.keys():
            self._metrics.forget(id_)
        for id_, next_at in (await self._store.next_times()).items():
            if id_ in active:  # shown from the start: an alert must see a schedule that never fires
                self._metrics.next_fire(id_, next_at)
        self._declared, self._active, self._synced_at = declared, active, now

    async def _fire(self, due: Due, now: datetime) -> None:
        schedule = self._active.get(due.id)
        if schedule is None or schedule.spec_key != due.spec_key:
            return  # another scheduler's, with other packages
        try:
            await self._plan_and_fire(schedule, due, now)
        except OperationFailure as error:
            # The server is there and refuses this one: the others must not wait for it.
            log.error("schedule_failed", extra={"trigger": due.id, "code": error.code})

    async def _plan_and_fire(self, schedule: Schedule, due: Due, now: datetime) -> None:
        plan = plan_tick(schedule.spec, due=due.next_at, now=now)
        skips = _missed(plan)
        for nominal in plan.fire:
            # A scheduler that was stopped for a while must not start what another one has skipped since.
            if not await self._store.is_current(due):
                return
            started = await together(self._start(schedule, nominal, app_id) for app_id in schedule.apps)
            skips += [skip for skip in started if skip is not None]
        last = plan.fire[-1] if plan.fire else None
        moved = await self._store.advance(due, next_at=plan.next_at, last_at=last, skips=skips, now=now)
        self._metrics.next_fire(schedule.id, plan.next_at)
        if moved:
            self._report(schedule, plan, skips)

    async def _start(self, schedule: Schedule, nominal: datetime, app_id: str) -> Skip | None:
        try:
            request = _request(schedule.workflow, schedule, nominal, app_id=app_id, fired_at=self._clock())
            if schedule.spec.overlap == "skip" and await self._runs.has_unfinished(
                workflow=schedule.workflow, trigger=schedule.spec.name, app_id=app_id, other_than=request.dedupe_key
            ):
                return Skip(OVERLAP, nominal, app_id)
            await self._acceptance.accept(request)
        except (PayloadError, NotStorableError) as error:
            log.warning("schedule_unmappable", extra={"trigger": schedule.id, "app_id": app_id, "error": str(error)})
            return Skip(UNMAPPABLE, nominal, app_id)
        return None

    def _report(self, schedule: Schedule, plan: Plan, skips: Sequence[Skip]) -> None:
        fired_at = self._clock()
        self._metrics.fired(schedule.id, plan, fired_at)
        if plan.fire:
            log.info(
                "schedule_fired",
                extra={"trigger": schedule.id, "nominal_at": plan.fire[-1].isoformat(), "ticks": len(plan.fire)},
            )
        for skip in skips:
            self._metrics.skipped(schedule.id, skip)
            log.warning(
                "schedule_skipped",
                extra={
                    "trigger": schedule.id,
                    "app_id": skip.app_id,
                    "reason": skip.reason,
                    "count": skip.count,
                    "nominal_at": skip.nominal_at.isoformat(),
                },
            )


def _missed(plan: Plan) -> list[Skip]:
    missed = plan.missed
    if missed is None:
        return []
    return [Skip(missed.reason, missed.first, count=missed.count, until=missed.last, exact=missed.exact)]


def _request(workflow: str, schedule: Schedule, nominal: datetime, *, app_id: str, fired_at: datetime) -> RunRequest:
    spec = schedule.spec
    event = {"nominal_at": nominal.isoformat(), "fired_at": fired_at.isoformat(), "app_id": app_id}
    return RunRequest(
        app_id=app_id,
        workflow=workflow,
        trigger=TriggerEvent("schedule", spec.name, nominal.isoformat(), fired_at=fired_at, nominal_at=nominal),
        input=resolve(spec.input, event),
        message=resolve_text(spec.message, event),
        priority=spec.priority,
    )
