"""Worker losses: when they park a run."""

from typing import Any

import pytest

from workers.store.run import RunState
from workers.store.worker_losses import MAX_ISOLATED_LOSSES, MAX_LOSSES, target_of, unchanged_query


@pytest.mark.parametrize(
    ("losses", "alone", "asked", "state"),
    [
        (1, 0, None, RunState.QUEUED),
        (MAX_ISOLATED_LOSSES, MAX_ISOLATED_LOSSES - 1, None, RunState.QUEUED),
        (MAX_ISOLATED_LOSSES, MAX_ISOLATED_LOSSES, None, RunState.PARKED),
        (MAX_LOSSES - 1, 0, None, RunState.QUEUED),
        (MAX_LOSSES, 0, None, RunState.PARKED),
        (MAX_LOSSES, MAX_ISOLATED_LOSSES, {"by": "ada"}, RunState.CANCELLED),
    ],
)
def test_losses_alone_and_very_many_park_a_run(losses: int, alone: int, asked: Any, state: RunState) -> None:
    assert target_of({"cancel_requested": asked}, losses, alone) is state


def test_a_loss_is_charged_to_the_owner_and_progress_that_were_read() -> None:
    run = {"_id": "run_1", "lease": {"token": 7}, "worker_losses": 2}

    query = unchanged_query(run, RunState.QUEUED)

    assert (query["lease.token"], query["worker_losses"], query["cancel_requested"]) == (7, 2, None)
