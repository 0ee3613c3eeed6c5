"""Pausing after failures: a trigger whose newest runs of an app have all failed starts nothing more for it, until
somebody who has looked at them resumes it."""

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime

from triggers.register.record import Pause, app_field_name
from triggers.register.store import MAX_PAUSED_APPS, TriggerStore
from triggers.schedule.schedules import spec_of
from triggers.schedule.ticks import Tick
from workers.store.run_store import RunStore
from workers.together import gather_all

log = logging.getLogger(__name__)

PAUSED_BY = "the scheduler"


async def pause_failing(runs: RunStore, triggers: TriggerStore, ticks: Sequence[Tick], now: datetime) -> set[Tick]:
    """Those whose apps have just been paused for their failures."""
    asked = [tick for tick in ticks if spec_of(tick.trigger).pause_after_failures is not None]
    failed = await gather_all(_has_failed_too_often(runs, tick) for tick in asked)
    failing = {tick for tick, too_often in zip(asked, failed, strict=True) if too_often}
    await gather_all(_pause_trigger(triggers, tick, now) for tick in failing)
    return failing


async def _has_failed_too_often(runs: RunStore, tick: Tick) -> bool:
    limit = spec_of(tick.trigger).pause_after_failures or 0
    failures = await runs.failures_in_a_row(
        tick.trigger.workflow,
        tick.trigger.spec.name,
        tick.app_id,
        up_to=limit,
        since=last_resumed_at(tick.record.document, tick.app_id),
    )
    return failures >= limit


async def _pause_trigger(triggers: TriggerStore, tick: Tick, now: datetime) -> None:
    limit = spec_of(tick.trigger).pause_after_failures
    pause = Pause(now, PAUSED_BY, f"its last {limit} runs failed", "failures")
    paused = tick.record.paused_apps
    # A document holds only so many pauses of single apps. Where so many fail, it is the trigger that fails.
    whole = tick.trigger.app_id is not None or len(paused) >= MAX_PAUSED_APPS
    await triggers.pause(tick.trigger, pause, app_id=None if whole else tick.app_id)
    log.warning(
        "trigger_paused_after_failures",
        extra={"trigger": tick.trigger.id, "app_id": tick.app_id, "failures": limit},
    )


def last_resumed_at(document: Mapping[str, object], app_id: str | None = None) -> datetime | None:
    """When the trigger, or the trigger for this app, was last resumed."""
    apps = document.get("resumed_apps")
    own = apps.get(app_field_name(app_id)) if isinstance(apps, Mapping) and app_id is not None else None
    times = [time for time in (document.get("resumed_at"), own) if isinstance(time, datetime)]
    return max(times, default=None)
