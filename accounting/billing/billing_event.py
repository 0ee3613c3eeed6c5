"""A billing event: one row of the ledger as receivers and exports see it."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

FIELDS = (
    *("id", "at", "app_id", "user_id", "chat_id", "workflow", "run_id", "trigger_type", "agent", "provider", "model"),
    *("tokens_used", "input_tokens", "cached_input_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens"),
    *("cost_usd", "price", "status", "ok"),
)


def to_billing_event(row: Mapping[str, Any]) -> dict[str, Any]:
    """Its id is the row's, for ever: whoever gets it twice, or first without and then with its usage, can tell."""
    made = {
        "id": row["_id"],
        "at": format_time(row["at"]),
        "tokens_used": row["input_tokens"] + row["output_tokens"],
        "cost_usd": None if (nano_usd := billed_nano_usd(row)) is None else nano_usd / 1e9,
    }
    return {name: made[name] if name in made else row.get(name) for name in FIELDS}


def billed_nano_usd(row: Mapping[str, Any]) -> int | None:
    """0 where no answer came, as in the totals; None where one came and has no price."""
    return 0 if row["status"] == "missing" else row["cost_nano_usd"]


def format_time(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
