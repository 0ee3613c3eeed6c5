"""Ids of runs' spans, computed instead of kept: the span of a run under one owner is named by its fencing token.

So whoever resumes a run, or follows one, knows which span to point to without asking, and tracing writes nothing to the
store but the trace that a trigger's request came with.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?")


@dataclass(frozen=True, slots=True)
class SpanIds:
    trace_id: int
    span_id: int
    sampled: bool = True

    def as_traceparent(self) -> str:
        return f"00-{self.trace_id:032x}-{self.span_id:016x}-{self.sampled:02x}"


def parse_traceparent(header: str | None) -> SpanIds | None:
    """None for what is no traceparent, as the W3C recommends: then a new trace begins."""
    match = _TRACEPARENT.fullmatch(header or "")
    if match is None:
        return None
    trace_id, span_id, flags = (int(part, 16) for part in match.groups())
    return SpanIds(trace_id, span_id, bool(flags & 1)) if trace_id and span_id else None


def span_ids_of(run: Mapping[str, Any], *, token: int) -> SpanIds:
    """Of a run document, under the owner with this token. A run that came without a trace has one of its own."""
    asked_by = parse_traceparent(run.get("traceparent"))
    trace_id = _number(run["_id"], length=16) if asked_by is None else asked_by.trace_id
    return SpanIds(trace_id, _number(f"{run['_id']}:{token}", length=8), asked_by is None or asked_by.sampled)


def previous_owner_ids(run: Mapping[str, Any]) -> SpanIds | None:
    """Who worked on this run before; not who held it only to find that it may not start yet."""
    history = run.get("history")
    return span_ids_of(run, token=history[-1]["token"]) if history else None


def _number(text: str, *, length: int) -> int:
    return int.from_bytes(sha256(text.encode()).digest()[:length]) or 1  # 0 is no id
