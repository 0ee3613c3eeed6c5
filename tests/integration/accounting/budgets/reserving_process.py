"""A process with budgets: its runs reserve, make a call, record and settle it."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from pymongo.asynchronous.database import AsyncDatabase

from accounting.budgets.budget import Budget, parse_budget
from accounting.budgets.budget_service import BudgetService
from accounting.budgets.budget_status import BudgetStatus, read_statuses
from accounting.budgets.budget_store import BudgetStore
from accounting.budgets.reservation_types import PlannedCall, Settle
from accounting.budgets.run_reservations import RunBudgets
from accounting.budgets.window_accounts import ReserverIdentity
from accounting.ledger.ledger import Ledger
from accounting.prices import Price, PriceTable
from accounting.usage import BegunCall, ModelCall, RunOwner, Tokens
from tests.integration.stage import wait_until
from workers.store.run_store import RunStore

Database = AsyncDatabase[dict[str, Any]]

OWNER = RunOwner("run", "acme", None, "chat", "Digest", "api")
PRICES = PriceTable([Price("script", "m", Decimal(1), Decimal(2))])


class ReservingProcess:
    """A process; each of its calls sends `prompt` characters."""

    def __init__(self, store: RunStore, *, fails_open: bool = False, **options: Any) -> None:
        self.holder = ReserverIdentity()
        self.keeper = BudgetService(store.database, PRICES, self.holder, fails_open=fails_open, **options)
        self.ledger = Ledger(store.database, PRICES, holder=lambda: self.holder.id, fails_closed=not fails_open)
        self.calls = 0
        self.made: list[ModelCall] = []

    def run(
        self, *, app_id: str = "acme", workflow: str = "Digest", used: int = 0, is_new: bool = False
    ) -> "ReservingRun":
        """Budgets of a run. `is_new`: it has called no model yet."""
        return ReservingRun(self, replace(OWNER, app_id=app_id, workflow=workflow), used, is_new=is_new)

    def plan_call(self, *, prompt: int = 30, model: str = "m") -> PlannedCall:
        self.calls += 1
        return PlannedCall(self.calls, "Writer", "script", model, prompt_characters=prompt)

    def move_to(self, database: Database) -> None:
        """As if its store had gone away, or come back."""
        keeper = self.keeper
        keeper.cache._budgets = BudgetStore(database)
        keeper.cache._read_at = float("-inf")
        keeper.windows._windows = database["budget_windows"]
        keeper.windows._database = database

    async def close(self) -> None:
        await self.keeper.close()


class ReservingRun:
    def __init__(self, process: ReservingProcess, owner: RunOwner, used: int = 0, *, is_new: bool = False) -> None:
        self.process = process
        self.owner = replace(owner, run_id=f"run_{process.holder.id}")
        self.used = used
        self.budgets = RunBudgets(
            process.keeper,
            app_id=owner.app_id,
            workflow=owner.workflow,
            amount_used=lambda _: self.used,
            has_begun=lambda: not is_new,
        )

    async def call(self, *, tokens: int = 100, lasting_s: float = 0.0, prompt: int = 30, model: str = "m") -> ModelCall:
        """Makes a call in the way of the meter."""
        begun = await self.begin(prompt=prompt, model=model)
        await asyncio.sleep(lasting_s)
        return await self.end(begun, tokens=tokens)

    async def begin(self, *, prompt: int = 30, model: str = "m") -> "ReservedCall":
        planned = self.process.plan_call(prompt=prompt, model=model)
        settle = await self.budgets.reserve(planned)
        begun = ReservedCall(planned, settle, datetime.now(UTC))
        opened = BegunCall(planned.number, "Writer", "script", model, begun.started_at, None)
        try:
            await self.process.ledger.begin(self.owner, lease_token=1, call=opened)
        except BaseException:
            await settle(call_of(begun, tokens=0))
            raise
        return begun

    async def end(self, begun: "ReservedCall", *, tokens: int = 100) -> ModelCall:
        call = call_of(begun, tokens=tokens)
        await self.process.ledger.record(self.owner, lease_token=1, call=call, holder=self.budgets.holder_of(call))
        await begun.settle(call)
        self.process.made.append(call)
        return call


@dataclass(frozen=True, slots=True)
class ReservedCall:
    planned: PlannedCall
    settle: Settle
    started_at: datetime


def call_of(begun: ReservedCall, *, tokens: int) -> ModelCall:
    planned = begun.planned
    return ModelCall(
        number=planned.number,
        agent="Writer",
        provider=planned.provider,
        model=planned.model,
        tokens=Tokens(input=tokens // 2, output=tokens - tokens // 2),
        status="reported",
        ok=True,
        started_at=begun.started_at,
        duration_s=0.0,
    )


def budget(limit: float = 1000, **fields: Any) -> Budget:
    given = {"app_id": "acme", "window": "total", "unit": "tokens", **fields}
    return parse_budget(limit=limit, **given)


async def set_budget(store: RunStore, limit: float = 1000, **fields: Any) -> Budget:
    made = budget(limit, **fields)
    await BudgetStore(store.database).set(made, by="a test")
    return made


async def budget_status(store: RunStore, app_id: str | None = None) -> BudgetStatus:
    [found] = await read_statuses(store.database, app_id)
    return found


async def wait_for_status(store: RunStore, what: str, condition: Callable[[BudgetStatus], bool]) -> None:
    async def holds() -> bool:
        return condition(await budget_status(store))

    await wait_until(what, holds, within_s=10)


async def recorded_spending(store: RunStore, **query: Any) -> int:
    """Returns the tokens in the ledger."""
    rows = await store.database["usage"].find(query).to_list(None)
    return sum(row["input_tokens"] + row["output_tokens"] for row in rows)


async def age_windows(store: RunStore, seconds: float) -> None:
    """Ages all times in the windows."""
    windows = store.database["budget_windows"]
    async for window in windows.find({"holders": {"$exists": True}}):
        past = timedelta(seconds=seconds)
        holders = {
            name: {**entry, **{field: entry[field] - past for field in ("until", "summed_at") if field in entry}}
            for name, entry in window["holders"].items()
        }
        await windows.update_one({"_id": window["_id"]}, {"$set": {"holders": holders}})
