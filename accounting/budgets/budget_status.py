"""How budgets stand: what is spent and reserved in the window that goes on, and what is left."""

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
    """Of a budget in its present window. Amounts are in tokens or nano-dollars. `app_id`: for whom; a budget for each
    app has one standing for each that has spent in this window. `end` is None for a total, which has no end; a budget
    for each run has neither start nor end, and nothing spent: each run counts for itself. `rejections` are runs that
    were held or refused at their start and calls that were not made, in this window and of all time. `exhausted_since`:
    when a worker found it spent, or when the budget was last changed."""

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
        """Below 0 when calls took more than was expected of them."""
        return self.limit - self.spent

    @property
    def share(self) -> float:
        """1.0 is all of it."""
        return self.spent / self.limit if self.limit else 1.0

    @property
    def is_exhausted(self) -> bool:
        return self.start is not None and self.spent >= self.limit

    def as_json(self) -> dict[str, Any]:
        """The budget's own fields, and how it stands: `for_app_id` is the app of this window."""
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
    """Of all budgets, in the order of their ids; with `app_id`, of those in which this app's calls must find room. A
    budget for each app has none for those whose own goes before it, and where no other has spent anything in its window
    yet, one for nobody."""
    places = await _current_windows(database, app_id)
    rows = await _read_windows(database, [*places.values()])
    found: list[BudgetStatus] = []
    for budget_id, place in places.items():
        its = [
            row
            for row in rows[budget_id]
            if not effective_budget(place.stored, row["app_id"], places.keys()).is_replaced
        ]
        if not its:
            its = [{"app_id": place.app_id, "spent": await _read_earlier_spending(database, place), "reserved": 0}]
        found += [_build_status(place, row) for row in sorted(its, key=lambda row: row["app_id"] or "")]
    return await _add_rejection_totals(database, found)


async def _current_windows(database: AsyncDatabase[Document], app_id: str | None) -> Mapping[str, BudgetWindow]:
    """The present windows, by the ids of their budgets."""
    now, known = datetime.now(UTC), {kept.budget.id: kept for kept in await BudgetStore(database).list()}
    asked = {id_: effective_budget(kept, app_id, known.keys()) for id_, kept in known.items()}
    return {
        id_: each.window_at(now)
        for id_, each in asked.items()
        if app_id is None or (each.budget.app_id in (None, EACH_APP, app_id) and not each.is_replaced)
    }


async def _read_windows(
    database: AsyncDatabase[Document], windows: Sequence[BudgetWindow]
) -> Mapping[str, Sequence[Document]]:
    asked: list[Document] = [{"_id": {"$in": [place.id for place in windows if not _is_for_many_apps(place)]}}]
    for place in filter(_is_for_many_apps, windows):
        labels = place.labels()
        asked.append({name: labels[name] for name in ("budget_id", "start", "since")})
    shown = {"budget_id": 1, "app_id": 1, "rejections": 1, "said": 1, "spent": SPENT, "reserved": RESERVED}
    rows: dict[str, list[Document]] = defaultdict(list)
    async for row in await database[COLLECTION].aggregate([{"$match": {"$or": asked}}, {"$project": shown}]):
        rows[row["budget_id"]].append(row)
    return rows


def _is_for_many_apps(window: BudgetWindow) -> bool:
    """Each app has a window of its own."""
    return window.budget.is_for_each_app and window.app_id is None


async def _read_earlier_spending(database: AsyncDatabase[Document], window: BudgetWindow) -> int:
    """Where nobody has looked it up yet."""
    if _is_for_many_apps(window) or window.budget.window == "run" or not window.has_earlier_spending:
        return 0
    return await sum_recorded_before(database, window.labels())


def _build_status(window: BudgetWindow, row: Document) -> BudgetStatus:
    is_run = window.budget.window == "run"
    said = row.get("said", {}).get("budget_exhausted", {})
    standing = BudgetStatus(
        window.budget,
        row["app_id"],
        None if is_run else window.span.start,
        window.span.end,
        spent=int(row["spent"]),
        reserved=int(row["reserved"]),
        rejections=row.get("rejections", 0),
    )
    if not standing.is_exhausted:
        return standing
    changed = window.stored.updated_at
    return replace(standing, exhausted_since=max(said.get("at", changed), changed))


async def _add_rejection_totals(
    database: AsyncDatabase[Document], statuses: Sequence[BudgetStatus]
) -> list[BudgetStatus]:
    ids = [all_time_id(each.budget.id, each.app_id) for each in statuses]
    kept = database[COLLECTION].find({"_id": {"$in": ids}}, {"rejections": 1})
    totals = {row["_id"]: row["rejections"] async for row in kept}
    return [replace(each, rejections_total=totals.get(id_, 0)) for each, id_ in zip(statuses, ids, strict=True)]
