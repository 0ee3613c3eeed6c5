"""Links of a chain: whether the end of a run is one that a trigger waits for, and whether it may start one more."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from triggers.change_stream.known import Chain
from triggers.happening import Happening, run_request
from workers.store.run import RunRequest, RunState
from workflows.package.trigger_specs.run_finished import ANY

LONGEST_CHAIN = 10

Run = Mapping[str, Any]
Stop = Literal["cycle", "too_deep"]


def waits_for(chain: Chain, run: Run, state: str, *, ended_at: datetime) -> bool:
    """`state` is the one the run has just reached; its document may be further already."""
    if chain.spec.workflow != run["workflow"] or not _serves(chain, run["app_id"]):
        return False
    if chain.since is not None and ended_at < chain.since.replace(microsecond=0):
        return False
    return has_outcome(chain, run, state)


def has_outcome(chain: Chain, run: Run, state: str) -> bool:
    """A parked run that is replayed or discarded becomes cancelled, and its outcome stays that of its parking: that
    is one end by its outcome, and two by its states."""
    wanted = chain.spec.outcome
    if state in wanted:
        return True
    if state == RunState.CANCELLED.value and run.get("resolved"):
        return False
    return ANY in wanted or (run.get("outcome") or {}).get("kind") in wanted


def chain_with(chain: Chain, run: Run) -> tuple[str, ...]:
    return (*(run.get("chain") or ()), chain.trigger.label)


def stopped_by(chain: Chain, run: Run) -> Stop | None:
    led_here = run.get("chain") or ()
    if chain.trigger.label in led_here:
        return "cycle"
    return "too_deep" if len(led_here) >= LONGEST_CHAIN else None


def event_id_of(run: Run, state: str) -> str:
    """A run that parks and is cancelled later ends twice, each time in another state."""
    return f"{run['_id']}:{state}"


def request_of(chain: Chain, run: Run, event: Mapping[str, Any], *, state: str, now: datetime) -> RunRequest:
    """`event` is the run as everybody sees it. PayloadError when it cannot be mapped."""
    happening = Happening(chain.trigger, run["app_id"], event_id_of(run, state), now, event)
    return run_request(
        happening,
        parent_run_id=run["_id"],
        correlation_id=run.get("correlation_id"),
        chain=chain_with(chain, run),
    )


def _serves(chain: Chain, app_id: str) -> bool:
    return not chain.trigger.apps or app_id in chain.trigger.apps
