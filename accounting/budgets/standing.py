"""How budgets stand: what is spent and reserved in the window that goes on, and what is left."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from pymongo.asynchronous.database import AsyncDatabase

from accounting.budgets.budget import EACH_APP, Budget, shown_amount
from accounting.budgets.places import Place
from accounting.budgets.store import Budgets, KeptBudget
from accounting.budgets.window_commands import RESERVED, SPENT
from accounting.budgets.window_store import COLLECTION, ever_id, recorded_before
from accounting.budgets.windows import span_at

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Standing:
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
    def left(self) -> int:
        """Below 0 when calls took more than was expected of them."""
        return self.limit - self.spent

    @property
    def share(self) -> float:
        """1.0 is all of it."""
        return self.spent / self.limit if self.limit else 1.0

    @property
    def exhausted(self) -> bool:
        return self.start is not None and self.spent >= self.limit

    def as_json(self) -> dict[str, Any]:
        """The budget's own fields, and how it stands: `for_app_id` is the app of this window."""
        unit = self.budget.unit
        return {
            **self.budget.as_json(),
            "for_app_id": self.app_id,
            "window_start": self.start,
            "window_end": self.end,
            "spent": shown_amount(unit, self.spent),
            "reserved": shown_amount(unit, self.reserved),
            "left": shown_amount(unit, self.left),
            "share": round(self.share, 6),
            "exhausted": self.exhausted,
            "exhausted_since": self.exhausted_since,
            "rejections": self.rejections,
            "rejections_total": self.rejections_total,
        }


async def standings(database: AsyncDatabase[Document], app_id: str | None = None) -> list[Standing]:
    """Of all budgets, in the order of their ids; with `app_id`, of those in which this app's calls must find room. A
    budget for each app in whose window no app has spent anything yet has one standing, for nobody."""
    found: list[Standing] = []
    places = [_present(kept, app_id) for kept in await Budgets(database).list()]
    places = [place for place in places if app_id is None or place.budget.app_id in (None, EACH_APP, app_id)]
    rows = await _rows(database, places)
    for place in places:
        its = [row for row in rows if row["budget_id"] == place.budget.id]
        if not its:
            spent = 0
            if place.spent_before and place.budget.window != "run" and (place.app_id or place.budget.workflow):
                spent = await recorded_before(database, place.labels())
            its = [{"app_id": place.app_id, "spent": spent, "reserved": 0}]
        found += [_standing(place, row) for row in sorted(its, key=lambda row: row["app_id"] or "")]
    return await _with_totals(database, found)


def _present(kept: KeptBudget, app_id: str | None) -> Place:
    budget = kept.budget
    whose = app_id if budget.is_for_each_app else budget.app_id
    return Place(kept, whose, span_at(budget.window, budget.timezone, datetime.now(UTC)))


async def _rows(database: AsyncDatabase[Document], places: Sequence[Place]) -> list[Document]:
    asked = []
    for place in places:
        labels = {name: place.labels()[name] for name in ("budget_id", "start", "since")}
        asked.append(labels if place.app_id is None else {**labels, "app_id": place.app_id})
    if not asked:
        return []
    shown = {"budget_id": 1, "app_id": 1, "rejections": 1, "said": 1, "spent": SPENT, "reserved": RESERVED}
    found = await database[COLLECTION].aggregate([{"$match": {"$or": asked}}, {"$project": shown}])
    return [row async for row in found]


def _standing(place: Place, row: Document) -> Standing:
    is_run = place.budget.window == "run"
    said = row.get("said", {}).get("budget_exhausted")
    standing = Standing(
        place.budget,
        row["app_id"],
        None if is_run else place.span.start,
        place.span.end,
        spent=int(row["spent"]),
        reserved=int(row["reserved"]),
        rejections=row.get("rejections", 0),
    )
    if said is None or not standing.exhausted:
        return standing
    return replace(standing, exhausted_since=max(said["at"], place.kept.updated_at))


async def _with_totals(database: AsyncDatabase[Document], found: Sequence[Standing]) -> list[Standing]:
    ids = [ever_id(each.budget.id, each.app_id) for each in found]
    kept = database[COLLECTION].find({"_id": {"$in": ids}}, {"rejections": 1})
    totals = {row["_id"]: row["rejections"] async for row in kept}
    return [replace(each, rejections_total=totals.get(id_, 0)) for each, id_ in zip(found, ids, strict=True)]
