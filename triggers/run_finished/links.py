"""Links of a chain: whether the end of a run is one that a trigger waits for, and whether it may start one more."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from triggers.change_stream.known import ChainTrigger
from triggers.happening import Occurrence, build_run_request
from workers.store.run import RunRequest, RunState
from workflows.package.trigger_specs.run_finished import ANY_OUTCOME

MAX_CHAIN_LENGTH = 10

RunDocument = Mapping[str, Any]
StopReason = Literal["cycle", "too_deep"]


def is_awaited_end(chain: ChainTrigger, run: RunDocument, state: str, *, ended_at: datetime) -> bool:
    """`state` is the one the run has just reached; its document may be further already."""
    if chain.spec.workflow != run["workflow"] or not _is_for_app(chain, run["app_id"]):
        return False
    if chain.since is not None and ended_at < chain.since.replace(microsecond=0):
        return False
    return has_outcome(chain, run, state)


def has_outcome(chain: ChainTrigger, run: RunDocument, state: str) -> bool:
    """A parked run that is replayed or discarded becomes cancelled, and its outcome stays that of its parking: that
    is one end by its outcome, and two by its states."""
    wanted = chain.spec.outcome
    if state in wanted:
        return True
    if state == RunState.CANCELLED.value and run.get("resolved"):
        return False
    return ANY_OUTCOME in wanted or (run.get("outcome") or {}).get("kind") in wanted


def extend_chain(chain: ChainTrigger, run: RunDocument) -> tuple[str, ...]:
    return (*(run.get("chain") or ()), chain.trigger.label)


def chain_stop_reason(chain: ChainTrigger, run: RunDocument) -> StopReason | None:
    led_here = run.get("chain") or ()
    if chain.trigger.label in led_here:
        return "cycle"
    return "too_deep" if len(led_here) >= MAX_CHAIN_LENGTH else None


def ended_run_event_id(run: RunDocument, state: str) -> str:
    """A run that parks and is cancelled later ends twice, each time in another state."""
    return f"{run['_id']}:{state}"


def build_chained_request(chain: ChainTrigger, run: RunDocument, event: Mapping[str, Any], *, state: str, now: datetime) -> RunRequest:
    """`event` is the run as everybody sees it. PayloadError when it cannot be mapped."""
    happening = Occurrence(chain.trigger, run["app_id"], ended_run_event_id(run, state), now, event)
    return build_run_request(
        happening,
        parent_run_id=run["_id"],
        correlation_id=run.get("correlation_id"),
        chain=extend_chain(chain, run),
    )


def _is_for_app(chain: ChainTrigger, app_id: str) -> bool:
    return not chain.trigger.apps or app_id in chain.trigger.apps
