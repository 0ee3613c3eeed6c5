"""The interface of a limit: it may hold a claimed run, and releases held runs when it has room."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from workers.store.limit_name import LimitName
from workers.store.run import Claim, Hold

UNLIMITED = 500  # the most runs released at once where there is no limit


@dataclass(frozen=True, slots=True)
class Refused:
    """The run may not start, and fails."""

    reason: str


@dataclass(frozen=True, slots=True)
class Released:
    """Runs that may start now.

    `last_app`: where apps take turns, the app of the last one. `count`: how many of the runs this process has released;
    a concurrent release may have taken the others.
    """

    run_ids: Sequence[str] = ()
    last_app: str = ""
    count: int = 0


class Limit(Protocol):
    """One kind of limit, with all its names."""

    async def has_room(self, limit: LimitName) -> int:
        """Returns how many more runs may start under this name."""

    async def admit(self, claim: Claim) -> Hold | Refused | None:
        """Returns a hold or a refusal of the claimed run; None if it may go on."""

    async def release(self, limit: LimitName, *, count: int, after: str = "") -> Released:
        """Makes at most `count` of its held runs ready.

        Where apps take turns, the app after `after` is first.
        """


def is_first_start(run: Mapping[str, Any]) -> bool:
    return bool(run["started_at"] == run["claimed_at"])
