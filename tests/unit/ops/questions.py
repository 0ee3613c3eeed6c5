"""A question of a tool, with everything that a question may have."""

from typing import Any

PAY: dict[str, Any] = {
    "kind": "tool",
    "number": 3,
    "id": "q_5f0c",
    "agent": "Clerk",
    "turn": 4,
    "text": "pay waits for a person",
    "title": "Pay 12 EUR?",
    "tool": "Refund",
    "function": "pay",
    "arguments": {"amount": 12},
    "payload": {"to": "Ada"},
    "choices": ["yes", "no"],
    "keys": ["verdict", "why"],
}
