"""A run: its states, what asks for one, and what its owner holds while it works on it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any
from urllib.parse import quote

from ulid import ULID

from workflows.package.priority import USUAL


class RunState(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    PARKED = "parked"
    NEEDS_HUMAN = "needs_human"


TERMINAL = frozenset({RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED})
UNFINISHED = frozenset({RunState.QUEUED, RunState.RUNNING})
AT_REST = frozenset({RunState.PARKED, RunState.NEEDS_HUMAN})
# What came to rest or to an end in any other way than well.
NOT_SUCCEEDED = (RunState.FAILED, RunState.CANCELLED, RunState.PARKED, RunState.NEEDS_HUMAN)


def new_run_id() -> str:
    return f"run_{ULID()}"


@dataclass(frozen=True, slots=True)
class TriggerEvent:
    """The outside happening: which trigger, and the id that makes this happening unlike any other."""

    type: str
    name: str
    id: str
    fired_at: datetime
    nominal_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What a trigger asks for. Two requests with one dedupe key are one run."""

    app_id: str
    workflow: str
    trigger: TriggerEvent
    input: Mapping[str, Any] = field(default_factory=dict)
    message: str | None = None
    user_id: str | None = None
    chat_id: str | None = None
    correlation_id: str | None = None
    parent_run_id: str | None = None
    replay_of: str | None = None
    priority: int = USUAL
    not_before: datetime | None = None  # durable at once, started later
    order_key: str | None = None  # of runs with one key one at a time is worked on, in the order they were accepted
    chain: tuple[str, ...] = ()  # the run_finished triggers, as workflow/trigger, that led here

    @property
    def dedupe_key(self) -> str:
        """Begins with workflow/trigger. The id comes last and the app is quoted: no two events share a key."""
        app = quote(self.app_id, safe="")
        return f"{self.workflow}/{self.trigger.name}/{self.trigger.type}/{app}/{self.trigger.id}"


@dataclass(frozen=True, slots=True)
class Accepted:
    """A durable run: `created` is false when an earlier request with the same key made it."""

    run_id: str
    created: bool


class HoldKind(StrEnum):
    BUDGET = "budget"
    CONCURRENCY = "concurrency"
    RATE = "rate"


@dataclass(frozen=True, slots=True)
class Hold:
    """Why a queued run may not start. `by` names the one limit that holds it, such as `app:acme`: the limit that
    has room again asks for its own."""

    kind: HoldKind
    by: str


@dataclass(frozen=True, slots=True)
class Claim:
    """Ownership of one run until the lease ends: the fencing token goes into every later write."""

    run_id: str
    owner: str
    token: int
    document: Mapping[str, Any] = field(repr=False)

    @property
    def attempt(self) -> int:
        return int(self.document["attempt"])


def labels(run: Mapping[str, Any]) -> dict[str, Any]:
    """Of a run document: what every log line about a run says."""
    return {"run_id": run["_id"], "app_id": run["app_id"], "workflow": run["workflow"]}


class LeaseLostError(Exception):
    """Another owner holds the run now: stop at once and write nothing."""

    def __init__(self, claim: Claim) -> None:
        super().__init__(f"{claim.run_id}: lease token {claim.token} is no longer the newest")
        self.run_id = claim.run_id
