"""What became of a wish about one run, and what is read of a run before it is changed."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from workers.store.run import RunState, run_labels
from workers.store.run_document import Document
from workers.store.run_reads import RunReads
from workers.store.run_store import RunStore

# A run that somebody else changes between our look and our write is looked at again: so often at most, so soon.
MAX_TRIES = 50
PAUSE_S = 0.02

# Never a context or an input: those may be megabytes.
READ_FIELDS = (
    "app_id",
    "workflow",
    "state",
    "lane",
    "hold",
    "held_by",
    "lease.token",
    "not_before",
    "order.key",
    "cancel_requested",
    "resolved",
)


@dataclass(frozen=True, slots=True)
class RunChange:
    """`changed` is false where nothing was left to do; `said` tells people what is so now."""

    run_id: str
    state: RunState
    said: str
    changed: bool = True
    new_run_id: str | None = None

    def as_json(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if name != "new_run_id" or value is not None}


async def read_run(store: RunStore, run_id: str, app_id: str | None) -> Document:
    """The run as far as a decision about it goes; of this app, or none at all."""
    run = await RunReads(store).find_fields(run_id, READ_FIELDS, app_id=app_id)
    if run is None:
        raise RunNotFoundError(run_id)
    return run


def known_state(run: Mapping[str, Any]) -> RunState:
    """RefusedError where a newer version has written the state: this one cannot know what may follow it."""
    try:
        return RunState(run["state"])
    except ValueError:
        raise RefusedError(
            f"{run['_id']} is in the state {run['state']}, which this version does not know; use a newer one"
        ) from None


def log_labels(run: Mapping[str, Any], by: str) -> dict[str, Any]:
    """For the log."""
    return {**run_labels(run), "by": by}


class RunNotFoundError(LookupError):
    """No such run, or none of this app."""

    def __init__(self, run_id: str) -> None:
        super().__init__(f"there is no run {run_id}")
        self.run_id = run_id


class RefusedError(Exception):
    """A run in this state does not take it; the text says why, and what it takes instead."""
