"""The store of budgets: collection `budgets`, one document each under a readable id."""

import logging
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from pymongo import ASCENDING, ReturnDocument
from pymongo.asynchronous.database import AsyncDatabase

from accounting.budgets.budget import NEW_RUNS, RUNNING, UNITS, WINDOWS, Budget, is_time_zone

log = logging.getLogger(__name__)

Document = dict[str, Any]
BudgetChangeKind = Literal["created", "changed", "unchanged"]

COLLECTION = "budgets"
_FIELDS = tuple(Budget.__slots__)


@dataclass(frozen=True, slots=True)
class StoredBudget:
    """A budget as it is stored. It counts by reservations from `since` on.

    What was spent before comes from the ledger. A budget that gets another time zone begins anew.
    """

    budget: Budget
    since: datetime
    created_at: datetime
    updated_at: datetime
    updated_by: str

    def as_json(self) -> dict[str, Any]:
        times = {"created_at": self.created_at, "updated_at": self.updated_at, "updated_by": self.updated_by}
        return {**self.budget.as_json(), **times}


@dataclass(frozen=True, slots=True)
class BudgetChange:
    stored: StoredBudget
    kind: BudgetChangeKind


class BudgetStore:
    def __init__(self, database: AsyncDatabase[Document]) -> None:
        self._budgets = database[COLLECTION]
        self._logged_ids: set[str] = set()

    async def list(self) -> list[StoredBudget]:
        """Lists all budgets in the order of their ids."""
        parsed = [self._parse(document) async for document in self._budgets.find().sort("_id", ASCENDING)]
        return [stored for stored in parsed if stored is not None]

    async def find(self, budget_id: str) -> StoredBudget | None:
        document = await self._budgets.find_one({"_id": budget_id})
        return None if document is None else self._parse(document)

    async def set(self, budget: Budget, *, by: str) -> BudgetChange:
        """Creates or changes a budget. Times are those of the database's clock."""
        document: Any = await self._budgets.find_one_and_update(  # an upsert always returns a document
            {"_id": budget.id},
            [{"$set": _change_stage(budget, by)}],
            upsert=True,
            return_document=ReturnDocument.AFTER,
        )
        return BudgetChange(_to_stored(budget, document), document["how"])

    async def remove(self, budget_id: str) -> bool:
        """Removes a budget; False if there was none.

        Runs that it holds go on, triggers that it has paused resume.
        """
        return (await self._budgets.delete_one({"_id": budget_id})).deleted_count == 1

    def _parse(self, document: Document) -> StoredBudget | None:
        """Reads a document. None if a newer version wrote it: its limits are unknown here."""
        choices = {"window": WINDOWS, "unit": UNITS, "new_runs": NEW_RUNS, "running": RUNNING}
        is_known = all(document.get(name) in values for name, values in choices.items())
        if is_known and is_time_zone(document["timezone"]):
            return _to_stored(Budget(**{name: document[name] for name in _FIELDS}), document)
        if document["_id"] not in self._logged_ids:
            self._logged_ids.add(document["_id"])
            log.error("budget_not_understood", extra={"budget": document["_id"]})
        return None


def _to_stored(budget: Budget, document: Document) -> StoredBudget:
    return StoredBudget(
        budget, document["since"], document["created_at"], document["updated_at"], document["updated_by"]
    )


def _change_stage(budget: Budget, by: str) -> Document:
    """Builds the update pipeline. Its expressions see the document as it was before."""
    fields = {name: {"$literal": getattr(budget, name)} for name in _FIELDS}
    exists = {"$ne": [{"$type": "$created_at"}, "missing"]}
    is_same = {"$and": [exists, *({"$eq": [f"${name}", value]} for name, value in fields.items())]}
    keeps_since = {"$and": [exists, {"$eq": ["$timezone", fields["timezone"]]}]}
    return {
        **fields,
        "since": {"$cond": [keeps_since, "$since", "$$NOW"]},
        "created_at": {"$ifNull": ["$created_at", "$$NOW"]},
        "updated_at": {"$cond": [is_same, "$updated_at", "$$NOW"]},
        "updated_by": {"$cond": [is_same, "$updated_by", {"$literal": by}]},
        "how": {"$cond": [is_same, "unchanged", {"$cond": [exists, "changed", "created"]}]},
    }
