"""The contract of run repositories, on a real MongoDB."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest

from accounting.ledger.ledger import Ledger
from accounting.prices import PriceTable
from tests.contracts.test_run_repository import RepositoryUnderTest, RunRepositoryContract
from workers.control.run_cancellation import cancel
from workers.reconciler.reclaim import Reclaim
from workers.steps.run_services import UsageLedger
from workers.store.claimed_runs import MongoRunRepository
from workers.store.run import RUN_FORMAT, Accepted, RunRequest
from workers.store.run_repository import RunRepository
from workers.store.run_store import RunStore

pytestmark = pytest.mark.integration


class MongoUnderTest:
    def __init__(self, store: RunStore) -> None:
        self._store = store
        self.ledger: UsageLedger = Ledger(store.database, PriceTable())

    def repository(
        self,
        owner: str = "first",
        *,
        versions: Callable[[], Mapping[str, str]] = dict,
        run_format: int = RUN_FORMAT,
    ) -> RunRepository:
        return MongoRunRepository(self._store, owner=owner, lease_s=30, versions=versions, run_format=run_format)

    async def insert(self, request: RunRequest) -> Accepted:
        return await self._store.insert(request)

    async def pass_time(self, time: timedelta) -> None:
        """Moves stored times back, since the server's clock cannot be moved."""
        ago = int(time.total_seconds() * 1000)
        for name in ("not_before", "lease.until"):
            earlier = {"$set": {name: {"$subtract": [f"${name}", ago]}}}
            await self._store.runs.update_many({name: {"$type": "date"}}, [earlier])

    async def reclaim(self) -> None:
        await Reclaim(self._store).run_pass(Counter())

    async def request_cancel(self, run_id: str) -> None:
        await cancel(self._store, run_id, by="Ada")

    async def set_fields(self, run_id: str, fields: Mapping[str, Any]) -> None:
        there = {name: value for name, value in fields.items() if value is not None}
        gone = dict.fromkeys(fields.keys() - there.keys(), "")
        change = {"$set": there} | ({"$unset": gone} if gone else {})
        await self._store.runs.update_one({"_id": run_id}, {name: each for name, each in change.items() if each})

    async def release_next(self, order_key: str) -> None:
        await self._store.order.release_next(order_key, sends_wakeup=False)

    async def written(self) -> Sequence[Mapping[str, Any]]:
        found = self._store.database.client["shop"]["customers"].find({}, {"_id": 0, "plan": 1})
        return await found.to_list(None)


class TestMongoRunRepository(RunRepositoryContract):
    @pytest.fixture
    async def under_test(self, store: RunStore) -> RepositoryUnderTest:
        await store.database.client["shop"]["customers"].delete_many({})
        return MongoUnderTest(store)
