"""Backfilling a schedule: first what would be started, then the runs."""

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from triggers.control.errors import UnfitTriggerError
from triggers.control.known import Known, check_answers_approved, check_started
from triggers.control.pausing import one_of_its_apps, readable
from triggers.role import TriggerGround
from triggers.schedule.backfill import Backfilled, BackfillError, BackfillPlan, Overlap, plan_backfill
from triggers.schedule.backfill import backfill as make_runs
from workers.control.errors import RefusedError
from workflows.package.trigger_specs.schedule import ScheduleSpec

log = logging.getLogger(__name__)

MAX_TIMES_TOLD = 100
EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)


async def plan(
    ground: TriggerGround,
    known: Known,
    *,
    start: datetime,
    end: datetime,
    app_id: str | None = None,
    viewer: str | None = None,
    may_approve: bool = True,
) -> BackfillPlan:
    """Changes nothing."""
    trigger = readable(known)
    check_answers_approved(known, may_approve=may_approve)
    if not isinstance(trigger.spec, ScheduleSpec):
        raise RefusedError(f"{known.id} is a {known.type}; only a schedule has times that can be made up for")
    check_started(ground.catalog, known.workflow, viewer=viewer)
    if start < EARLIEST:  # at the beginning of the calendar there is no moment before
        raise UnfitTriggerError({"from": f"nothing was due before {EARLIEST.year}; begin later"})
    app_id = one_of_its_apps(known, app_id)
    try:
        return await plan_backfill(trigger, start=start, end=end, store=ground.store, app_id=app_id)
    except BackfillError as error:
        raise UnfitTriggerError({"from": str(error)}) from None


async def carry_out(
    ground: TriggerGround,
    planned: BackfillPlan,
    *,
    by: str,
    overlap: Overlap = "one_by_one",
    told: Callable[[int], None] = lambda _done: None,
) -> Backfilled:
    """Done again after it broke off, it makes what is missing."""
    try:
        done = await make_runs(planned, ground.acceptance, overlap=overlap, told=told)
    except BackfillError as error:
        raise UnfitTriggerError({"from": str(error)}) from None
    log.info("trigger_backfilled", extra={"trigger": planned.trigger.id, "runs": done.created, "by": by})
    return done


def as_json(planned: BackfillPlan) -> dict[str, Any]:
    """Of very many times the first are told; `runs` counts all."""
    return {
        "trigger_id": planned.trigger.id,
        "runs": planned.runs,
        "there_already": planned.there_already,
        "apps": len(planned.apps),
        "times": [nominal.isoformat() for nominal in planned.times[:MAX_TIMES_TOLD]],
    }
