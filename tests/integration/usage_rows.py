"""Rows of the ledger for tests: what some model calls of some apps have used, without any model."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from pymongo.asynchronous.database import AsyncDatabase

from accounting.ledger.ledger import Ledger
from accounting.prices import Price, PriceTable
from accounting.usage import ModelCall, RunOwner, Tokens, UsageStatus

PRICES = PriceTable((Price("openai", "gpt", Decimal(1), Decimal(2)),))


@dataclass(frozen=True, slots=True)
class UsedCalls:
    """`model` gpt has a price, others have none."""

    app_id: str = "acme"
    workflow: str = "Digest"
    agent: str = "Writer"
    model: str = "gpt"
    trigger_type: str = "schedule"
    at: datetime = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
    input: int = 100
    output: int = 10
    status: UsageStatus = "reported"


async def insert_usage(database: AsyncDatabase[dict[str, Any]], calls: Sequence[UsedCalls]) -> None:
    ledger = Ledger(database, PRICES)
    await ledger.ensure_indexes()
    nothing = Tokens()
    for number, each in enumerate(calls, await database["usage"].count_documents({}) + 1):
        owner = RunOwner(f"run_{number}", each.app_id, None, "chat", each.workflow, each.trigger_type)
        tokens = Tokens(each.input, cached_input=each.input // 2, output=each.output)
        call = ModelCall(
            number=1,
            agent=each.agent,
            provider="openai",
            model=each.model,
            tokens=nothing if each.status == "missing" else tokens,
            status=each.status,
            ok=each.status != "missing",
            started_at=each.at,
            duration_s=0.5,
        )
        await ledger.record(owner, lease_token=1, call=call)


def days(count: int, **like: Any) -> list[UsedCalls]:
    """One call on each of the first days of 2026."""
    first = UsedCalls(**like)
    return [replace(first, at=datetime(2026, 1, 1 + day, 6, tzinfo=UTC)) for day in range(count)]
