"""Room under a limit: released runs are counted before running ones."""

from typing import cast
from unittest.mock import MagicMock

import pytest
from typing_extensions import override

from workers.store.held_runs import Head, HeldRuns
from workers.store.limit_name import LimitKind, LimitName
from workers.store.run_store import RunStore


class StartingMeanwhile(HeldRuns):
    """A run that a worker claims between the two counts."""

    def __init__(self) -> None:
        super().__init__(cast(RunStore, MagicMock()))
        self.has_started = False

    @override
    async def count_released(self, limit: LimitName, *, up_to: int) -> int:
        counted = 0 if self.has_started else 1
        self.has_started = True
        return counted

    @override
    async def count_running(self, limit: LimitName, *, up_to: int) -> int:
        counted = 1 if self.has_started else 0
        self.has_started = True
        return counted


@pytest.mark.parametrize("limit", [LimitName(LimitKind.APP, "acme"), LimitName(LimitKind.WORKFLOW, "Digest")], ids=str)
async def test_a_run_that_starts_between_the_counts_is_never_missed(limit: LimitName) -> None:
    assert await StartingMeanwhile().count_taken(limit, up_to=10) >= 1


def test_urgent_runs_go_first_and_of_those_the_oldest() -> None:
    heads = [Head("acme", "Digest", run_id, priority) for run_id, priority in (("b", 0), ("a", 0), ("c", 9))]

    assert [each.run_id for each in sorted(heads, key=lambda head: head.urgency)] == ["c", "a", "b"]
