"""The facts of a run: its ids and its trigger. No context value replaces them."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from workflows.context.values.value_types import ValueType

FACT_TYPES: Mapping[str, ValueType] = {
    **dict.fromkeys(("app_id", "enterprise_id", "user_id", "chat_id", "workflow_name", "run_id"), "string"),
    "trigger": "object",
    "cache_seed": "integer",
}
FIXED_NAMES = frozenset(FACT_TYPES)


@dataclass(frozen=True, slots=True)
class RunFacts:
    run_id: str
    app_id: str
    user_id: str | None
    chat_id: str
    workflow: str
    trigger: Mapping[str, Any]

    def base_values(self) -> dict[str, Any]:
        """Returns the facts by FIXED_NAMES."""
        return {
            "app_id": self.app_id,
            "enterprise_id": self.app_id,
            "user_id": self.user_id,
            "chat_id": self.chat_id,
            "workflow_name": self.workflow,
            "run_id": self.run_id,
            "trigger": dict(self.trigger),
            "cache_seed": cache_seed(self.app_id, self.chat_id),
        }


def cache_seed(app_id: str, chat_id: str) -> int:
    """Returns the number that separates one conversation's caches from all others."""
    owner = f"{app_id}:{chat_id}"
    return int.from_bytes(hashlib.sha256(owner.encode("utf-8", "replace")).digest()[:4], "big")
