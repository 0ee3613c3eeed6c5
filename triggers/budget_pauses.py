"""Pausing by budget: what starts runs of an app or a workflow whose money is spent is paused until there is some again.

Only for budgets that say so. Every look compares what is to be paused with what is paused for this reason: a pause of
somebody's own is neither made nor ended here, and who resumes a trigger by hand is not overruled while the budget stays
as it is. Any number of schedulers may look.
"""

import logging
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from accounting.budgets.alerts import describe_until
from accounting.budgets.budget_status import BudgetStatus, read_statuses
from accounting.budgets.budget_store import BudgetStore
from accounting.budgets.window_calendar import EPOCH
from triggers.register.trigger import Trigger, declared_triggers, is_for_app
from triggers.register.trigger_record import Pause, TriggerRecord
from triggers.register.trigger_store import MAX_PAUSED_APPS
from triggers.role_context import RoleContext

log = logging.getLogger(__name__)

CHECK_INTERVAL_S = 2.0

PauseTarget = tuple[str, str | None]  # a trigger's id, and the app for which it is paused


@dataclass(frozen=True, slots=True)
class _DuePause:
    trigger: Trigger
    app_id: str | None
    status: BudgetStatus


class BudgetPauser:
    def __init__(self, context: RoleContext) -> None:
        self._context = context

    async def update_pauses(self) -> float:
        """Returns the seconds until the next look."""
        wanted = await self._find_due_pauses()
        paused = await self._context.triggers.find_budget_pauses()
        missing = {place: wanted[place] for place in wanted.keys() - paused}
        records = await self._context.triggers.find_records([id_ for id_, _ in missing]) if missing else {}
        for (id_, _), each in missing.items():
            await self._pause(each, records.get(id_))
        for id_, app_id in paused - wanted.keys():
            if await self._context.triggers.resume_by_budget(id_, app_id=app_id):
                log.info("trigger_resumed", extra={"trigger": id_, "app_id": app_id, "by": "its budget"})
        return CHECK_INTERVAL_S

    async def _find_due_pauses(self) -> Mapping[PauseTarget, _DuePause]:
        found: dict[PauseTarget, _DuePause] = {}
        if not any(kept.budget.pause_triggers for kept in await BudgetStore(self._context.database).list()):
            return found
        every = await read_statuses(self._context.database)
        spent = [each for each in every if each.budget.pause_triggers and each.is_exhausted]
        for standing in sorted(spent, key=lambda each: each.exhausted_since or EPOCH):
            async for each in self._pauses_for(standing):
                found[each.trigger.id, each.app_id] = each  # of several the newest: who resumed it knew the others
        return found

    async def _pauses_for(self, status: BudgetStatus) -> AsyncIterator[_DuePause]:
        workflow, app_id = status.budget.workflow, status.app_id
        for trigger in self._declared_triggers(workflow):
            if app_id is None:
                yield _DuePause(trigger, None, status)
            elif is_for_app(trigger.spec, app_id):
                yield _DuePause(trigger, app_id, status)
        async for record in self._context.triggers.iter_runtime_triggers(app_id=app_id, workflow=workflow):
            if record.trigger is not None:
                yield _DuePause(record.trigger, None, status)

    def _declared_triggers(self, workflow: str | None) -> Iterator[Trigger]:
        found = declared_triggers(self._context.catalog.packages())
        return (trigger for trigger in found if workflow in (None, trigger.workflow))

    async def _pause(self, due_pause: _DuePause, record: TriggerRecord | None) -> None:
        trigger, app_id, standing = due_pause.trigger, due_pause.app_id, due_pause.status
        if record is not None and (_was_resumed(record, app_id, standing.exhausted_since) or _is_full(record, app_id)):
            return  # its runs are held or refused all the same
        note = f"its money is spent {describe_until(standing.budget, standing.end)}"
        pause = Pause(datetime.now(UTC), f"the budget {standing.budget.id}", note, "budget")
        if await self._context.triggers.pause_by_budget(trigger, pause, app_id=app_id):
            said = {"trigger": trigger.id, "app_id": app_id, "by": pause.by}
            log.warning("trigger_paused", extra=said)


def _was_resumed(record: TriggerRecord, app_id: str | None, since: datetime | None) -> bool:
    resumed = record.last_resumed_at(app_id)
    return resumed is not None and since is not None and resumed > since


def _is_full(record: TriggerRecord, app_id: str | None) -> bool:
    return app_id is not None and len(record.paused_apps) >= MAX_PAUSED_APPS
