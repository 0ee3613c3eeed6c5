"""Jitter: a delay that spreads runs which are due at the same moment, the same whoever computes it."""

from datetime import datetime
from hashlib import blake2b

from triggers.schedule.plan import MILLISECOND, next_nominal
from workflows.package.trigger_specs.schedule import ScheduleSpec

_BITS = 64


def jittered_start(spec: ScheduleSpec, trigger_id: str, app_id: str, nominal: datetime) -> datetime | None:
    """When a run may start; None where there is no jitter. Before the next nominal time, whatever the jitter is."""
    if not spec.jitter:
        return None
    widest = spec.jitter
    following = next_nominal(spec, after=nominal)
    if following is not None:
        widest = min(widest, following - nominal - MILLISECOND)
    return nominal + (widest * _hash_fraction(f"{trigger_id}\0{app_id}\0{nominal.isoformat()}")) // MILLISECOND * MILLISECOND


def _hash_fraction(text: str) -> float:
    """From 0 to 1."""
    digest = blake2b(text.encode(), digest_size=_BITS // 8).digest()
    return int.from_bytes(digest, "big") / float((1 << _BITS) - 1)
