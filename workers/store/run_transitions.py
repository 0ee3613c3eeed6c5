"""The table of state transitions, which every write to the state of a run is checked against."""

from workers.store.run import RunState

ALLOWED: dict[RunState, frozenset[RunState]] = {
    RunState.QUEUED: frozenset({RunState.RUNNING, RunState.CANCELLED}),
    RunState.RUNNING: frozenset(
        {
            RunState.QUEUED,  # retry, hand-back, or lost worker
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
    """Returns the states from which a run may become `target`.

    They are part of the filter of the write.
    """
    return [source.value for source, targets in ALLOWED.items() if target in targets]


def transition_filter(source: RunState, target: RunState) -> dict[str, object]:
    """Returns the filter of a write for this transition; it matches no run if the table lacks it."""
    return {"$eq": source.value, "$in": source_states(target)}
