"""A limit: what may hold a claimed run back, and releases held runs when it has room again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from workers.store.limit_name import LimitName
from workers.store.run import Claim, Hold

UNLIMITED = 500  # where there is no limit: at most so many at once


@dataclass(frozen=True, slots=True)
class Refused:
    """The run may not start at all, and ends."""

    reason: str


@dataclass(frozen=True, slots=True)
class Released:
    """Runs that may start now, and the app whose turn was last, where apps take turns."""

    run_ids: Sequence[str] = ()
    last_app: str = ""


class Limit(Protocol):
    """One kind of limit, with all its names."""

    async def has_room(self, limit: LimitName) -> int:
        """Returns how many more runs may start under this name."""

    async def admit(self, claim: Claim) -> Hold | Refused | None:
        """Decides whether a claimed run goes on; None where it does."""

    async def release(self, limit: LimitName, *, count: int, after: str = "") -> Released:
        """Makes at most so many of its held runs ready; where apps take turns, the one after `after` is first."""


def is_first_start(run: Mapping[str, Any]) -> bool:
    return bool(run["started_at"] == run["claimed_at"])
