"""Runs with open questions, as each version stored them, without a worker."""

from typing import Any

from tests.integration.ops.console.conftest import Console, accept_run

MESSAGE: dict[str, Any] = {
    "number": 1,
    "id": "q_1",
    "kind": "message",
    "agent": "Clerk",
    "turn": 2,
    "text": "Which account shall it be taken from?",
}
REFUND: dict[str, Any] = {
    "number": 2,
    "id": "q_2",
    "kind": "tool",
    "agent": "Clerk",
    "turn": 2,
    "text": "pay waits for a person",
    "title": "Refund 12 EUR to Ada Lovelace?",
    "tool": "Refund",
    "function": "pay",
    "arguments": {"amount": 12, "currency": "EUR", "to": "Ada Lovelace", "lines": [{"sku": "a-1", "n": 1}]},
    "payload": {"order": "o-7", "reason": "arrived broken"},
    "choices": ["yes", "no", "ask the shop first"],
    "keys": ["verdict"],
    "position": "1.1",
    "digests": {"arguments": "a", "payload": "b"},
}
LARGER: dict[str, Any] = {
    **REFUND,
    "number": 3,
    "id": "q_3",
    "title": "Refund 5,000 EUR to Ada Lovelace?",
    "arguments": {**REFUND["arguments"], "amount": 5000},
    "choices": None,
    "keys": ["verdict", "why"],
    "position": "1.2",
}
FREE: dict[str, Any] = {**REFUND, "number": 4, "id": "q_4", "title": None, "choices": None, "keys": None}
OLD: dict[str, Any] = {"number": 1, "kind": "tool", "agent": "A", "turn": 1, "text": "t waits", "tool": "Card"}
OUTCOME: dict[str, Any] = {
    "kind": "needs_human",
    "reason": "pay waits for a person",
    "error": {"type": "NeedsHuman", "message": "pay waits for a person", "agent": "Clerk", "turn": 2},
}


async def insert_asking_run(console: Console, *questions: dict[str, Any], **changes: Any) -> str:
    run_id = await accept_run(console.stage, app_id=changes.pop("app_id", "acme"))
    kept = [{name: value for name, value in each.items() if value is not None} for each in questions]
    asked = {"state": "needs_human", "question": kept[0], "questions": kept, "outcome": OUTCOME, **changes}
    change = {"$set": {name: value for name, value in asked.items() if value is not None}}
    removed = {name: "" for name, value in asked.items() if value is None}
    await console.gateway.ground.store.runs.update_one(
        {"_id": run_id}, {**change, **({"$unset": removed} if removed else {})}
    )
    return run_id
