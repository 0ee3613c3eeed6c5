"""Budget releases: held runs go on when their budget's window has turned, its limit was raised, or it is gone.

A step of the scheduler's reconciler, for any number of them. The most urgent run goes first, then the oldest. Only so
many are on their way at a time: a budget that is soon spent again then holds the rest where they are.
"""

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from datetime import UTC, datetime

from pymongo import ASCENDING, DESCENDING

from accounting.budgets.budget_store import BudgetStore, StoredBudget
from accounting.budgets.effective_budgets import EffectiveBudget, effective_budget
from accounting.budgets.service import HELD_BY_PREFIX
from accounting.budgets.window_store import WindowStore
from workers.fairness.held import EACH_LIMIT, ON_ITS_WAY, HeldRuns
from workers.fairness.letting_go import round_from
from workers.store.run import HoldKind
from workers.store.run_document import Document
from workers.store.run_store import RunStore
from workers.wakeup_sender import WakeupSender

log = logging.getLogger(__name__)

MAX_RELEASED = 500
MOST_ON_THEIR_WAY = 100
MOST_APPS = 1_000  # of one budget in a pass; the next one goes on behind them
_INDEX = "by_limit_and_workflow"


class BudgetReleases:
    def __init__(
        self, store: RunStore, wakeups: WakeupSender, *, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._runs = store.runs
        self._held = HeldRuns(store)
        self._budgets = BudgetStore(store.database)
        self._windows = WindowStore(store.database)
        self._wakeups = wakeups
        self._clock = clock
        self._last_app: dict[str, str] = {}

    async def run_pass(self, counts: Counter[str]) -> None:
        limits = await self._limits()
        self._last_app = {limit: app for limit, app in self._last_app.items() if limit in limits}
        every = await self._budgets.list() if limits else []
        known = {HELD_BY_PREFIX + each.budget.id: each for each in every}
        free = await self._free([known[limit] for limit in limits if limit in known])
        left = MAX_RELEASED
        for limit in limits:
            if limit in known and known[limit].budget.is_for_each_app:
                released = await self._release_by_app(limit, known, left)
            else:
                released = await self._let_go(limit, None, left) if limit in free or limit not in known else 0
            counts[HoldKind.BUDGET.value] += released
            left -= released

    async def _limits(self) -> list[str]:
        within = {"held_by": {"$gte": HELD_BY_PREFIX, "$lt": HELD_BY_PREFIX[:-1] + ";"}}
        found = await self._runs.aggregate([{"$match": within}, *EACH_LIMIT], hint=_INDEX)
        return [row["_id"] async for row in found]

    async def _free(self, asked: Sequence[StoredBudget]) -> Set[str]:
        """Which have room, of those that are not for each app: asked for together."""
        of_one = [
            effective_budget(kept, kept.budget.app_id, set()) for kept in asked if not kept.budget.is_for_each_app
        ]
        return {HELD_BY_PREFIX + each.budget.id for each in await self._with_room(of_one)}

    async def _release_by_app(self, limit: str, known: Mapping[str, StoredBudget], most: int) -> int:
        apps = round_from(await self._apps(limit), self._last_app.get(limit, ""))[:MOST_APPS]
        ids = {each.budget.id for each in known.values()}
        released = 0
        for each in await self._with_room([effective_budget(known[limit], app_id, ids) for app_id in apps]):
            if released >= most:
                break
            released += await self._let_go(limit, each.app_id, most - released)
            self._last_app[limit] = each.app_id or ""
        return released

    async def _with_room(self, asked: Sequence[EffectiveBudget]) -> list[EffectiveBudget]:
        now = self._clock()
        places = {each: each.window_at(now) for each in asked if each.is_enforced}
        used = await self._windows.read_usage([*places.values()]) if places else {}
        return [each for each in asked if each not in places or used[places[each].id].has_room(each.budget.limit)]

    async def _apps(self, limit: str) -> list[str]:
        """A seek for each."""
        order = dict.fromkeys(("held_by", "app_id", "workflow"), ASCENDING)
        steps: list[Mapping[str, object]] = [
            {"$match": {"held_by": limit}},
            {"$sort": {**order, "priority": DESCENDING, "_id": ASCENDING}},
            {"$group": {"_id": "$app_id"}},
        ]
        return [row["_id"] async for row in await self._runs.aggregate(steps, hint=_INDEX)]

    async def _let_go(self, limit: str, app_id: str | None, most: int) -> int:
        whose: Document = {} if app_id is None else {"app_id": app_id}
        on_their_way = {"held_by": ON_ITS_WAY + limit, **whose}
        most = min(most, MOST_ON_THEIR_WAY - await self._runs.count_documents(on_their_way, hint=_INDEX))
        if most <= 0:
            return 0
        found = self._runs.find({"held_by": limit, **whose}, {"_id": 1}, hint=_INDEX)
        urgent_first = found.sort([("priority", DESCENDING), ("_id", ASCENDING)]).limit(most)
        run_ids = [run["_id"] async for run in urgent_first]
        released = await self._held.let_go(limit, run_ids)
        for run_id in run_ids:
            self._wakeups.send(run_id)
        if released:
            log.info("runs_released", extra={"by": limit, "count": released})
        return released
