"""Coercion: text from the environment to the type a variable declares."""

import json
from typing import Any

from workflows.package.models import ValueType

TRUE_WORDS = frozenset({"1", "true", "yes", "on"})


def coerce_text(text: str, to: ValueType) -> Any:
    """Raises ValueError when the text is not of this type. Only 1, true, yes and on are true."""
    match to:
        case "boolean":
            return text.strip().lower() in TRUE_WORDS
        case "integer":
            return int(text)
        case "number":
            return float(text)
        case "object" | "array":
            value = json.loads(text)
            if not isinstance(value, dict if to == "object" else list):
                raise ValueError(f"is not a JSON {to}")
            return value
        case _:
            return text
