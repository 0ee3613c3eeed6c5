"""Rows of the ledger as the roll-up passes them to the outbox."""

from datetime import UTC, datetime
from typing import Any

AT = datetime(2026, 3, 1, 12, 30, 15, 250_000, tzinfo=UTC)


def row(number: int = 1, **changes: Any) -> dict[str, Any]:
    return {
        "_id": f"run_1:7:{number}",
        "run_id": "run_1",
        "app_id": "acme",
        "user_id": None,
        "chat_id": "chat_1",
        "workflow": "Digest",
        "trigger_type": "schedule",
        "agent": "Writer",
        "provider": "openai",
        "model": "gpt",
        "holder": "worker-1",
        "input_tokens": 100,
        "cached_input_tokens": 40,
        "cache_write_tokens": 1,
        "output_tokens": 10,
        "reasoning_tokens": 2,
        "status": "reported",
        "ok": True,
        "error": None,
        "duration_s": 0.5,
        "cost_nano_usd": 120_001,
        "price": "built-in 2026-03-01",
        "at": AT,
        "rollup": 1,
        **changes,
    }
