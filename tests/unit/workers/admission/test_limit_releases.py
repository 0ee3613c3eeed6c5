"""Limit releases: each run is counted by the process that has released it."""

from collections.abc import Sequence
from typing import cast
from unittest.mock import MagicMock

import pytest
from typing_extensions import override

from workers.admission.limit_releases import release_and_wake
from workers.admission.limits.all_limits import AllLimits
from workers.admission.limits.budget_limit import BudgetLimit
from workers.admission.limits.limit import Released
from workers.admission.release_policy import ReleasePolicy
from workers.store.held_runs import Head, HeldRuns
from workers.store.limit_name import LimitKind, LimitName
from workers.store.run_store import RunStore

WAITING = ("run_a", "run_b", "run_c")


class RacedRuns(HeldRuns):
    """Three waiting runs, of which another scheduler releases two at the same moment."""

    def __init__(self) -> None:
        super().__init__(cast(RunStore, MagicMock()))

    @override
    async def list_heads(self, limit: LimitName) -> list[Head]:
        return [Head("acme", "Digest", WAITING[0], 0)]

    @override
    async def next_waiting(self, limit: LimitName, head: Head, count: int) -> list[Head]:
        return [Head("acme", "Digest", run_id, 0) for run_id in WAITING[:count]]

    @override
    async def count_released_by(self, limit: LimitName, app_id: str | None) -> int:
        return 0

    @override
    async def most_urgent(self, limit: LimitName, app_id: str | None, *, count: int) -> list[str]:
        return [*WAITING[:count]]

    @override
    async def release(self, limit: LimitName, run_ids: Sequence[str]) -> int:
        return len(run_ids) - 2


class Sent(list[str]):
    def send(self, run_id: str) -> None:
        self.append(run_id)


class CapOfApp:
    """The cap of an app, with room for three."""

    def __init__(self, held: HeldRuns) -> None:
        self._policy = ReleasePolicy(held, has_room=self._has_room, limits_of=lambda _: [])

    async def _has_room(self, _: LimitName) -> int:
        return 3

    async def release(self, limit: LimitName, *, count: int, after: str = "") -> Released:
        return await self._policy.release_most_urgent(limit, count=count, after=after)


@pytest.mark.parametrize("kind", [LimitKind.BUDGET, LimitKind.APP], ids=str)
async def test_only_the_runs_that_this_process_has_released_are_counted(kind: LimitKind) -> None:
    held, sent = RacedRuns(), Sent()
    limits = (
        BudgetLimit(cast(RunStore, MagicMock()), held) if kind is LimitKind.BUDGET else cast(AllLimits, CapOfApp(held))
    )

    released = await release_and_wake(limits, LimitName(kind, "acme"), 3, last_app={}, wakeups=sent)

    assert released == 1
    assert sent == [*WAITING]  # a wake-up too many starts nothing
