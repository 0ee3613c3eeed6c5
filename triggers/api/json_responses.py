"""JSON responses: converts documents to JSON."""

import json
import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from fastapi import Response


def api_response(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Sends documents unvalidated, so that runs of newer versions are shown.

    Route models only document.
    """
    return Response(to_json_bytes(value), status, dict(headers or {}), "application/json")


def to_json_bytes(value: Any) -> bytes:
    return json.dumps(to_json_value(value), ensure_ascii=False, separators=(",", ":")).encode()


def to_json_value(value: Any) -> Any:
    """Writes dates in ISO 8601, and null for NaN and Infinity of a tool."""
    if isinstance(value, Mapping):
        return {str(key): to_json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json_value(item) for item in value]
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, str | int) else str(value)
