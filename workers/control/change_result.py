"""The result of a requested change to one run, and the fields that are read before it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from workers.store.run import RunState, run_labels
from workers.store.run_document import Document
from workers.store.run_reads import RunReads
from workers.store.run_store import RunStore

# If the run changes between read and write, the command reads again: at most this often, after this pause.
MAX_TRIES = 50
PAUSE_S = 0.02

# Without context and input, which may be megabytes.
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
    """`changed` is false if nothing was left to do; `said` describes the state for people."""

    run_id: str
    state: RunState
    said: str
    changed: bool = True
    new_run_id: str | None = None

    def as_json(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if name != "new_run_id" or value is not None}


async def read_run(store: RunStore, run_id: str, app_id: str | None) -> Document:
    """Reads the fields of the run that a change depends on.

    Raises RunNotFoundError if this app has no such run.
    """
    run = await RunReads(store).find_fields(run_id, READ_FIELDS, app_id=app_id)
    if run is None:
        raise RunNotFoundError(run_id)
    return run


def known_state(run: Mapping[str, Any]) -> RunState:
    """Returns the state of the run.

    Raises RefusedError for a state of a newer version, whose next states this one does not know.
    """
    try:
        return RunState(run["state"])
    except ValueError:
        raise RefusedError(
            f"{run['_id']} is in the state {run['state']}, which this version does not know; use a newer one"
        ) from None


def log_labels(run: Mapping[str, Any], by: str) -> dict[str, Any]:
    """Returns the log fields of a change."""
    return {**run_labels(run), "by": by}


class RunNotFoundError(LookupError):
    """No such run exists, or it belongs to another app."""

    def __init__(self, run_id: str) -> None:
        super().__init__(f"there is no run {run_id}")
        self.run_id = run_id


class RefusedError(Exception):
    """The state of the run does not allow the change; the text gives the reason and the alternative."""
