"""Which state may follow which: the one table that every write to a run's state goes through."""

from workers.store.run import RunState

ALLOWED: dict[RunState, frozenset[RunState]] = {
    RunState.QUEUED: frozenset({RunState.RUNNING, RunState.CANCELLED}),
    RunState.RUNNING: frozenset(
        {
            RunState.QUEUED,  # retry, hand-back, or its worker was lost
            RunState.SUCCEEDED,
            RunState.FAILED,
            RunState.CANCELLED,
            RunState.PARKED,
            RunState.NEEDS_HUMAN,
        }
    ),
    RunState.NEEDS_HUMAN: frozenset({RunState.QUEUED, RunState.CANCELLED}),
    RunState.PARKED: frozenset({RunState.CANCELLED}),
    RunState.SUCCEEDED: frozenset(),
    RunState.FAILED: frozenset(),
    RunState.CANCELLED: frozenset(),
}


def source_states(target: RunState) -> list[str]:
    """The states a run may be in for it to become `target`: goes into the filter of the write itself."""
    return [source.value for source, targets in ALLOWED.items() if target in targets]


def transition_filter(source: RunState, target: RunState) -> dict[str, object]:
    """For the filter of a write that moves a run from one to the other: without that line in the table, no run is."""
    return {"$eq": source.value, "$in": source_states(target)}
