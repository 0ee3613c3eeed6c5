"""Span ids of runs: computed from the run id and the fencing token, not stored.

So a worker that resumes or follows a run can link its span without a query. Tracing stores only the trace of the
request that a trigger received.
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
    """Parses the header.

    None if it is invalid, as the W3C recommends: then a new trace begins.
    """
    match = _TRACEPARENT.fullmatch(header or "")
    if match is None:
        return None
    trace_id, span_id, flags = (int(part, 16) for part in match.groups())
    return SpanIds(trace_id, span_id, bool(flags & 1)) if trace_id and span_id else None


def span_ids_of(run: Mapping[str, Any], *, token: int) -> SpanIds:
    """Computes the span ids of a run under the owner with this token.

    A run without a trace gets one of its own.
    """
    parent = parse_traceparent(run.get("traceparent"))
    trace_id = _number(run["_id"], length=16) if parent is None else parent.trace_id
    return SpanIds(trace_id, _number(f"{run['_id']}:{token}", length=8), parent is None or parent.sampled)


def previous_owner_ids(run: Mapping[str, Any]) -> SpanIds | None:
    """Returns the span ids of the previous owner that worked on the run.

    An owner that only held it does not count.
    """
    history = run.get("history")
    return span_ids_of(run, token=history[-1]["token"]) if history else None


def _number(text: str, *, length: int) -> int:
    return int.from_bytes(sha256(text.encode()).digest()[:length]) or 1  # 0 is no id
