"""The name of a limit in `held_by`: `app:acme`, `workflow:Digest`, `rate:acme`, `budget:…`, `order:…`.

A released run keeps the name with a prefix, `released:app:acme`, until a worker claims it.
"""

from dataclasses import dataclass
from enum import StrEnum

from workers.store.run import HoldKind

RELEASED_PREFIX = "released:"


class LimitKind(StrEnum):
    APP = "app"
    WORKFLOW = "workflow"
    RATE = "rate"
    BUDGET = "budget"
    ORDER = "order"


_KINDS = {kind.value: kind for kind in LimitKind}
_HOLDS = {LimitKind.RATE: HoldKind.RATE, LimitKind.BUDGET: HoldKind.BUDGET}


@dataclass(frozen=True, slots=True, order=True)
class LimitName:
    kind: LimitKind
    name: str

    def __str__(self) -> str:
        return f"{self.kind.value}:{self.name}"

    @property
    def hold_kind(self) -> HoldKind:
        return _HOLDS.get(self.kind, HoldKind.CONCURRENCY)

    @property
    def released_name(self) -> str:
        """The `held_by` of a run that this limit has released."""
        return f"{RELEASED_PREFIX}{self}"


def parse_limit(held_by: str) -> LimitName | None:
    """Returns None for a released run, and for a kind that this version does not know."""
    kind, separator, name = held_by.partition(":")
    return LimitName(_KINDS[kind], name) if separator and kind in _KINDS else None


def range_of(kind: LimitKind) -> dict[str, str]:
    """Returns the bounds of all names of this kind, for an index."""
    return {"$gte": f"{kind.value}:", "$lt": f"{kind.value};"}
