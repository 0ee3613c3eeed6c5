"""Ledger rows for tests: many at once, as workers of several apps write them."""

import random
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from accounting.ledger.ledger_rows import COLLECTION, OPEN, closed_row
from accounting.prices import Price, PriceTable
from accounting.usage import ModelCall, RunOwner, Tokens
from workers.store.run_store import RunStore

BEGAN = datetime(2026, 3, 1, 22, 10, tzinfo=UTC)
PRICES = PriceTable((Price("openai", "m", Decimal(1), Decimal(2)),))
APPS = ("acme", "globex", "a/b & c")


def random_rows(count: int, *, seed: int, since: datetime = BEGAN, over: timedelta = timedelta(hours=5)) -> list[Any]:
    """Makes due rows; some are failed, estimated or unpriced."""
    dice = random.Random(seed)
    return [_row(dice, f"run_{seed}_{number}", since + over * dice.random()) for number in range(count)]


def _row(dice: random.Random, run_id: str, at: datetime) -> dict[str, Any]:
    owner = RunOwner(run_id, dice.choice(APPS), None, run_id, dice.choice("VW"), dice.choice(["schedule", "webhook"]))
    status: Any = dice.choice(["reported"] * 8 + ["missing", "estimated"])
    tokens = Tokens(dice.randrange(1, 1000), 0, 0, dice.randrange(100)) if status != "missing" else Tokens()
    at = at.replace(microsecond=at.microsecond // 1000 * 1000)
    call = ModelCall(
        1,
        dice.choice("AB"),
        "openai",
        dice.choice(["m", "m", "m", "unheard-of"]),
        tokens,
        status,
        status != "missing" and dice.random() < 0.9,
        at,
        0.1,
    )
    return closed_row(owner, lease_token=1, call=call, holder="", prices=PRICES)


async def give_up_open_rows(store: RunStore) -> None:
    """Ends the time of all open calls; the next roll-up closes them."""
    await store.database[COLLECTION].update_many(
        {"rollup": OPEN}, [{"$set": {"open_until": {"$subtract": ["$at", 60_000]}}}]
    )


async def insert_rows(store: RunStore, rows: Iterable[dict[str, Any]]) -> None:
    await store.database[COLLECTION].insert_many([*rows])
