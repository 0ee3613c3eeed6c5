"""Backfill of a schedule: first the plan, then its runs."""

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from triggers.control.trigger_entry import TriggerEntry, check_answers_approved, check_workflow_started
from triggers.control.trigger_errors import UnfitTriggerError
from triggers.control.trigger_pauses import normalize_app, require_readable
from triggers.role_context import RoleContext
from triggers.schedule.schedule_backfill import (
    BackfillError,
    BackfillOverlap,
    BackfillPlan,
    BackfillResult,
    make_backfill_runs,
    plan_backfill,
)
from workers.control.change_result import RefusedError
from workflows.package.trigger_specs.schedule_spec import ScheduleSpec

log = logging.getLogger(__name__)

MAX_TIMES_SHOWN = 100
EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)


async def prepare_backfill(
    context: RoleContext,
    entry: TriggerEntry,
    *,
    start: datetime,
    end: datetime,
    app_id: str | None = None,
    viewer: str | None = None,
    may_approve: bool = True,
) -> BackfillPlan:
    """Plans a backfill and changes nothing."""
    trigger = require_readable(entry)
    check_answers_approved(entry, may_approve=may_approve)
    if not isinstance(trigger.spec, ScheduleSpec):
        raise RefusedError(f"{entry.id} is a {entry.type}; only a schedule can be backfilled")
    check_workflow_started(context.catalog, entry.workflow, viewer=viewer)
    if start < EARLIEST:  # the plan reads from just before the start, which the first moment of the calendar lacks
        raise UnfitTriggerError({"from": f"nothing was due before {EARLIEST.year}; begin later"})
    app_id = normalize_app(entry, app_id)
    try:
        return await plan_backfill(trigger, start=start, end=end, store=context.store, app_id=app_id)
    except BackfillError as error:
        raise UnfitTriggerError({"from": str(error)}) from None


async def run_backfill(
    context: RoleContext,
    plan: BackfillPlan,
    *,
    by: str,
    overlap: BackfillOverlap = "one_by_one",
    on_progress: Callable[[int], None] = lambda _done: None,
) -> BackfillResult:
    """Creates the runs. Repeated after an interruption, it creates the missing ones."""
    try:
        result = await make_backfill_runs(plan, context.acceptance, overlap=overlap, on_progress=on_progress)
    except BackfillError as error:
        raise UnfitTriggerError({"from": str(error)}) from None
    log.info("trigger_backfilled", extra={"trigger": plan.trigger.id, "runs": result.created, "by": by})
    return result


def backfill_json(plan: BackfillPlan) -> dict[str, Any]:
    """Returns the plan as JSON: at most 100 times; `runs` counts all."""
    return {
        "trigger_id": plan.trigger.id,
        "runs": plan.runs,
        "there_already": plan.there_already,
        "apps": len(plan.apps),
        "times": [nominal.isoformat() for nominal in plan.times[:MAX_TIMES_SHOWN]],
    }
