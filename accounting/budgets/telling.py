"""Telling: what is said of a budget to people: that it is nearly spent, or spent, and until when."""

import asyncio
import logging
from datetime import datetime
from zoneinfo import ZoneInfo

from pymongo.errors import PyMongoError

from accounting.budgets.budget import Budget, amount_in_words
from accounting.budgets.places import Place
from accounting.budgets.window_store import WindowStore

log = logging.getLogger(__name__)

MARKS = {"budget_warned": 0.8, "budget_exhausted": 1.0}
MOST_REMEMBERED = 10_000


def spent_in_words(place: Place, spent: int) -> str:
    """As runs say it, which their app may read: of a budget that several apps share, not what the others have spent."""
    budget = place.budget
    which = "all" if budget.app_id is None else amount_in_words(budget.unit, spent)
    amounts = f"{which} of {amount_in_words(budget.unit, budget.limit)}"
    whose = f" for {place.app_id}" if budget.is_for_each_app else ""
    return f"the budget {budget.id} is spent{whose}: {amounts}, {until_in_words(budget, place.span.end)}"


def until_in_words(budget: Budget, end: datetime | None) -> str:
    """Until when it is so."""
    if end is None:
        return "until its limit is raised"
    return f"until {end.astimezone(ZoneInfo(budget.timezone)):%Y-%m-%d %H:%M} {budget.timezone}"


class Alerts:
    """Said once for a window and its limit, by whichever process sees it first."""

    def __init__(self, windows: WindowStore) -> None:
        self._windows = windows
        self._said: set[tuple[str, str, int]] = set()
        self._saying: set[asyncio.Task[None]] = set()

    def look(self, place: Place, spent: int) -> None:
        limit = place.budget.limit
        for what in marks_reached(spent, limit):
            key = (place.id, what, limit)
            if key in self._said:
                continue
            if len(self._said) >= MOST_REMEMBERED:
                self._said.clear()  # the store knows what was said
            self._said.add(key)
            saying = asyncio.create_task(self._say(place, what, spent))
            self._saying.add(saying)
            saying.add_done_callback(self._saying.discard)

    async def close(self) -> None:
        await asyncio.gather(*self._saying)

    async def _say(self, place: Place, what: str, spent: int) -> None:
        try:
            is_first = await self._windows.say_once(place, what)
        except PyMongoError:
            self._said.discard((place.id, what, place.budget.limit))  # with the next answer, then
            return
        if is_first:
            say(what, place.budget, app_id=place.app_id, spent=spent, until=place.span.end)


def marks_reached(spent: int, limit: int) -> list[str]:
    return [what for what, share in MARKS.items() if spent >= share * limit]


def say(what: str, budget: Budget, *, app_id: str | None, spent: int, until: datetime | None = None) -> None:
    log.warning(
        what,
        extra={
            "budget": budget.id,
            "app_id": app_id,
            "spent": amount_in_words(budget.unit, spent),
            "limit": amount_in_words(budget.unit, budget.limit),
            "until": None if until is None else until.isoformat(),
        },
    )
