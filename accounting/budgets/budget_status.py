"""Budget status: what is spent, reserved and left in the present windows."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from pymongo.asynchronous.database import AsyncDatabase

from accounting.budgets.budget import EACH_APP, Budget, display_amount
from accounting.budgets.budget_store import BudgetStore
from accounting.budgets.effective_budgets import BudgetWindow, effective_budget
from accounting.budgets.window_store import COLLECTION, RESERVED, SPENT, all_time_id, sum_recorded_before

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class BudgetStatus:
    """A budget in its present window. Amounts are in tokens or nano-dollars.

    `app_id` is the app of the window: a budget for each app has one status for each app that has spent in it. `end` is
    None for a total, which has no end. A budget of window `run` has neither start nor end and nothing spent: each run
    counts for itself. `rejections` are runs held or refused at their start and calls that were not made, in this window
    and of all time. `exhausted_since` is when a worker found the budget spent, or when it was last changed.
    """

    budget: Budget
    app_id: str | None
    start: datetime | None
    end: datetime | None
    spent: int = 0
    reserved: int = 0
    exhausted_since: datetime | None = None
    rejections: int = 0
    rejections_total: int = 0

    @property
    def limit(self) -> int:
        return self.budget.limit

    @property
    def remaining(self) -> int:
        """The limit less the spent amount; negative if calls took more than was reserved."""
        return self.limit - self.spent

    @property
    def share(self) -> float:
        """The spent share of the limit; 1.0 is all of it."""
        return self.spent / self.limit if self.limit else 1.0

    @property
    def is_exhausted(self) -> bool:
        return self.start is not None and self.spent >= self.limit

    def as_json(self) -> dict[str, Any]:
        """Returns the fields of the budget and its status.

        `for_app_id` is the app of this window.
        """
        unit = self.budget.unit
        return {
            **self.budget.as_json(),
            "for_app_id": self.app_id,
            "window_start": self.start,
            "window_end": self.end,
            "spent": display_amount(unit, self.spent),
            "reserved": display_amount(unit, self.reserved),
            "left": display_amount(unit, self.remaining),
            "share": round(self.share, 6),
            "exhausted": self.is_exhausted,
            "exhausted_since": self.exhausted_since,
            "rejections": self.rejections,
            "rejections_total": self.rejections_total,
        }


async def read_statuses(database: AsyncDatabase[Document], app_id: str | None = None) -> list[BudgetStatus]:
    """Reads the status of all budgets, in the order of their ids.

    With `app_id`, only of budgets in which calls of this app must find room. A budget for each app has no status for
    apps that replace it by an own one. If no other app has spent in its window yet, it has one status without an app.
    """
    windows = await _current_windows(database, app_id)
    rows = await _read_windows(database, [*windows.values()])
    statuses: list[BudgetStatus] = []
    for budget_id, window in windows.items():
        rows_of_budget = [
            row
            for row in rows[budget_id]
            if not effective_budget(window.stored, row["app_id"], windows.keys()).is_replaced
        ]
        if not rows_of_budget:
            rows_of_budget = [
                {"app_id": window.app_id, "spent": await _read_earlier_spending(database, window), "reserved": 0}
            ]
        statuses += [_build_status(window, row) for row in sorted(rows_of_budget, key=lambda row: row["app_id"] or "")]
    return await _add_rejection_totals(database, statuses)


async def _current_windows(database: AsyncDatabase[Document], app_id: str | None) -> Mapping[str, BudgetWindow]:
    """Returns the present windows by the ids of their budgets."""
    now, by_id = datetime.now(UTC), {stored.budget.id: stored for stored in await BudgetStore(database).list()}
    effective = {id_: effective_budget(stored, app_id, by_id.keys()) for id_, stored in by_id.items()}
    return {
        id_: budget.window_at(now)
        for id_, budget in effective.items()
        if app_id is None or (budget.budget.app_id in (None, EACH_APP, app_id) and not budget.is_replaced)
    }


async def _read_windows(
    database: AsyncDatabase[Document], windows: Sequence[BudgetWindow]
) -> Mapping[str, Sequence[Document]]:
    queries: list[Document] = [{"_id": {"$in": [window.id for window in windows if not _is_for_many_apps(window)]}}]
    for window in filter(_is_for_many_apps, windows):
        labels = window.labels()
        queries.append({name: labels[name] for name in ("budget_id", "start", "since")})
    shown = {"budget_id": 1, "app_id": 1, "rejections": 1, "said": 1, "spent": SPENT, "reserved": RESERVED}
    rows: dict[str, list[Document]] = defaultdict(list)
    async for row in await database[COLLECTION].aggregate([{"$match": {"$or": queries}}, {"$project": shown}]):
        rows[row["budget_id"]].append(row)
    return rows


def _is_for_many_apps(window: BudgetWindow) -> bool:
    """Checks whether this stands for many windows, one per app."""
    return window.budget.is_for_each_app and window.app_id is None


async def _read_earlier_spending(database: AsyncDatabase[Document], window: BudgetWindow) -> int:
    """Sums up what was spent before the budget, while no window document has it."""
    if _is_for_many_apps(window) or window.budget.window == "run" or not window.has_earlier_spending:
        return 0
    return await sum_recorded_before(database, window.labels())


def _build_status(window: BudgetWindow, row: Document) -> BudgetStatus:
    is_run = window.budget.window == "run"
    alert = row.get("said", {}).get("budget_exhausted", {})
    status = BudgetStatus(
        window.budget,
        row["app_id"],
        None if is_run else window.span.start,
        window.span.end,
        spent=int(row["spent"]),
        reserved=int(row["reserved"]),
        rejections=row.get("rejections", 0),
    )
    if not status.is_exhausted:
        return status
    changed = window.stored.updated_at
    return replace(status, exhausted_since=max(alert.get("at", changed), changed))


async def _add_rejection_totals(
    database: AsyncDatabase[Document], statuses: Sequence[BudgetStatus]
) -> list[BudgetStatus]:
    ids = [all_time_id(status.budget.id, status.app_id) for status in statuses]
    documents = database[COLLECTION].find({"_id": {"$in": ids}}, {"rejections": 1})
    totals = {row["_id"]: row["rejections"] async for row in documents}
    return [replace(status, rejections_total=totals.get(id_, 0)) for status, id_ in zip(statuses, ids, strict=True)]
