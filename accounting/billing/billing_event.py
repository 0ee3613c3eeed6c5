"""Billing events: rows of the ledger as receivers and exports see them."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from accounting.usage import NANO_PER_USD

FIELDS = (
    *("id", "at", "app_id", "user_id", "chat_id", "workflow", "run_id", "trigger_type", "agent", "provider", "model"),
    *("tokens_used", "input_tokens", "cached_input_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens"),
    *("cost_usd", "price", "status", "ok"),
)


def to_billing_event(row: Mapping[str, Any]) -> dict[str, Any]:
    """Builds the event of a row. Its id is that of the row, for ever.

    So a receiver recognises an event that it gets twice, or first without and then with its usage.
    """
    derived = {
        "id": row["_id"],
        "at": format_time(row["at"]),
        "tokens_used": row["input_tokens"] + row["output_tokens"],
        "cost_usd": None if (nano_usd := billed_nano_usd(row)) is None else nano_usd / NANO_PER_USD,
    }
    return {name: derived[name] if name in derived else row.get(name) for name in FIELDS}


def billed_nano_usd(row: Mapping[str, Any]) -> int | None:
    """Returns the price of a row as it is billed.

    0 for a call without an answer, as in the totals; None for an answer without a price.
    """
    return 0 if row["status"] == "missing" else row["cost_nano_usd"]


def format_time(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
