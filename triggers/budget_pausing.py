"""Pausing by budget: what starts runs of an app or a workflow whose money is spent is paused until there is some again.

Only for budgets that say so. Every look compares what is to be paused with what is paused for this reason: a pause of
somebody's own is neither made nor ended here, and who resumes a trigger by hand is not overruled while the budget stays
as it is. Any number of schedulers may look.
"""

import logging
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from accounting.budgets.standing import Standing, standings
from accounting.budgets.store import Budgets
from accounting.budgets.telling import until_in_words
from accounting.budgets.windows import BEGINNING
from triggers.register.precedence import serves
from triggers.register.record import Pause, Record
from triggers.register.store import MAX_PAUSED_APPS
from triggers.register.trigger import Trigger, declared_triggers
from triggers.role import TriggerGround
from triggers.schedule.failures import resumed_at

log = logging.getLogger(__name__)

LOOK_EVERY_S = 2.0

Place = tuple[str, str | None]  # a trigger's id, and the app for which it is paused


@dataclass(frozen=True, slots=True)
class _Wanted:
    trigger: Trigger
    app_id: str | None
    standing: Standing


class BudgetPausing:
    def __init__(self, ground: TriggerGround) -> None:
        self._ground = ground

    async def look(self) -> float:
        """Returns the seconds until the next look."""
        wanted = await self._wanted()
        paused = await self._ground.triggers.paused_by_budget()
        missing = {place: wanted[place] for place in wanted.keys() - paused}
        records = await self._ground.triggers.records([id_ for id_, _ in missing]) if missing else {}
        for (id_, _), each in missing.items():
            await self._pause(each, records.get(id_))
        for id_, app_id in paused - wanted.keys():
            if await self._ground.triggers.resume_by_budget(id_, app_id=app_id):
                log.info("trigger_resumed", extra={"trigger": id_, "app_id": app_id, "by": "its budget"})
        return LOOK_EVERY_S

    async def _wanted(self) -> Mapping[Place, _Wanted]:
        found: dict[Place, _Wanted] = {}
        if not any(kept.budget.pause_triggers for kept in await Budgets(self._ground.database).list()):
            return found
        every = await standings(self._ground.database)
        spent = [each for each in every if each.budget.pause_triggers and each.exhausted]
        for standing in sorted(spent, key=lambda each: each.exhausted_since or BEGINNING):
            async for each in self._of(standing):
                found[each.trigger.id, each.app_id] = each  # of several the newest: who resumed it knew the others
        return found

    async def _of(self, standing: Standing) -> AsyncIterator[_Wanted]:
        workflow, app_id = standing.budget.workflow, standing.app_id
        for trigger in self._declared(workflow):
            if app_id is None:
                yield _Wanted(trigger, None, standing)
            elif serves(trigger.spec, app_id):
                yield _Wanted(trigger, app_id, standing)
        async for record in self._ground.triggers.made_at_run_time(app_id=app_id, workflow=workflow):
            if record.trigger is not None:
                yield _Wanted(record.trigger, None, standing)

    def _declared(self, workflow: str | None) -> Iterator[Trigger]:
        found = declared_triggers(self._ground.catalog.packages())
        return (trigger for trigger in found if workflow in (None, trigger.workflow))

    async def _pause(self, wanted: _Wanted, record: Record | None) -> None:
        trigger, app_id, standing = wanted.trigger, wanted.app_id, wanted.standing
        if record is not None and (_was_resumed(record, app_id, standing.exhausted_since) or _is_full(record, app_id)):
            return  # its runs are held or refused all the same
        note = f"its money is spent {until_in_words(standing.budget, standing.end)}"
        pause = Pause(datetime.now(UTC), f"the budget {standing.budget.id}", note, "budget")
        if await self._ground.triggers.pause_by_budget(trigger, pause, app_id=app_id):
            said = {"trigger": trigger.id, "app_id": app_id, "by": pause.by}
            log.warning("trigger_paused", extra=said)


def _was_resumed(record: Record, app_id: str | None, since: datetime | None) -> bool:
    resumed = resumed_at(record.document, app_id)
    return resumed is not None and since is not None and resumed > since


def _is_full(record: Record, app_id: str | None) -> bool:
    return app_id is not None and len(record.paused_apps) >= MAX_PAUSED_APPS
