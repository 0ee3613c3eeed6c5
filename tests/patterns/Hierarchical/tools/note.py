from typing import Any


def note(topic: str, finding: str, context_variables: Any = None) -> str:
    """Notes a finding for those who write.

    The topic is prices or rivals."""
    context_variables.set("notes", {**context_variables.get("notes", {}), topic: finding})
    return "noted"
