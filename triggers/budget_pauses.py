"""Budget pauses: pauses the triggers of an app or workflow without budget.

Only budgets with `pause_triggers` do this. Each check compares the pauses that are due with the pauses of this reason
in the store; an operator's pause is never touched. A trigger that an operator resumed stays active until its budget
is exhausted anew. Any number of schedulers may check.
"""

import logging
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from accounting.budgets.budget_alerts import describe_until
from accounting.budgets.budget_status import BudgetStatus, read_statuses
from accounting.budgets.budget_store import BudgetStore
from accounting.budgets.window_calendar import EPOCH
from triggers.register.trigger import Trigger, declared_triggers, is_for_app
from triggers.register.trigger_record import Pause, TriggerRecord
from triggers.register.trigger_store import MAX_PAUSED_APPS
from triggers.role_context import RoleContext

log = logging.getLogger(__name__)

CHECK_INTERVAL_S = 2.0

PauseTarget = tuple[str, str | None]  # the trigger's id, and the app it is paused for


@dataclass(frozen=True, slots=True)
class _DuePause:
    trigger: Trigger
    app_id: str | None
    status: BudgetStatus


class BudgetPauser:
    def __init__(self, context: RoleContext) -> None:
        self._context = context

    async def update_pauses(self) -> float:
        """Returns the seconds until the next check."""
        due_pauses = await self._find_due_pauses()
        paused = await self._context.triggers.find_budget_pauses()
        missing = {target: due_pauses[target] for target in due_pauses.keys() - paused}
        records = await self._context.triggers.find_records([id_ for id_, _ in missing]) if missing else {}
        for (id_, _), due_pause in missing.items():
            await self._pause(due_pause, records.get(id_))
        for id_, app_id in paused - due_pauses.keys():
            if await self._context.triggers.resume_by_budget(id_, app_id=app_id):
                log.info("trigger_resumed", extra={"trigger": id_, "app_id": app_id, "by": "its budget"})
        return CHECK_INTERVAL_S

    async def _find_due_pauses(self) -> Mapping[PauseTarget, _DuePause]:
        found: dict[PauseTarget, _DuePause] = {}
        if not any(stored.budget.pause_triggers for stored in await BudgetStore(self._context.database).list()):
            return found
        statuses = await read_statuses(self._context.database)
        exhausted = [status for status in statuses if status.budget.pause_triggers and status.is_exhausted]
        for status in sorted(exhausted, key=lambda status: status.exhausted_since or EPOCH):
            async for due_pause in self._pauses_for(status):
                # The newest of several budgets wins: the operator who resumed the trigger saw the older ones.
                found[due_pause.trigger.id, due_pause.app_id] = due_pause
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
        trigger, app_id, status = due_pause.trigger, due_pause.app_id, due_pause.status
        if record is not None and (_was_resumed(record, app_id, status.exhausted_since) or _is_full(record, app_id)):
            return  # the budget still holds or refuses its runs
        note = f"its money is spent {describe_until(status.budget, status.end)}"
        pause = Pause(datetime.now(UTC), f"the budget {status.budget.id}", note, "budget")
        if await self._context.triggers.pause_by_budget(trigger, pause, app_id=app_id):
            log.warning("trigger_paused", extra={"trigger": trigger.id, "app_id": app_id, "by": pause.by})


def _was_resumed(record: TriggerRecord, app_id: str | None, since: datetime | None) -> bool:
    resumed = record.last_resumed_at(app_id)
    return resumed is not None and since is not None and resumed > since


def _is_full(record: TriggerRecord, app_id: str | None) -> bool:
    return app_id is not None and len(record.paused_apps) >= MAX_PAUSED_APPS
