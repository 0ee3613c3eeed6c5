"""Facts: whose run it is. Every context has them, and nothing takes their place."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

FIXED_NAMES = frozenset({"app_id", "enterprise_id", "user_id", "chat_id", "workflow_name", "run_id", "trigger"})


@dataclass(frozen=True, slots=True)
class RunFacts:
    run_id: str
    app_id: str
    user_id: str | None
    chat_id: str
    workflow: str
    trigger: Mapping[str, Any]

    def base_values(self) -> dict[str, Any]:
        """Keys: FIXED_NAMES."""
        return {
            "app_id": self.app_id,
            "enterprise_id": self.app_id,
            "user_id": self.user_id,
            "chat_id": self.chat_id,
            "workflow_name": self.workflow,
            "run_id": self.run_id,
            "trigger": dict(self.trigger),
        }
