"""A run: its states, the request for it, and the claim of its owner."""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from ulid import ULID

from workers.store.dedupe_key import build_dedupe_key
from workflows.package.trigger_specs.priority import DEFAULT_PRIORITY


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
# States of runs that rest or ended without success.
NOT_SUCCEEDED = (RunState.FAILED, RunState.CANCELLED, RunState.PARKED, RunState.NEEDS_HUMAN)

# The format of the runs that this version writes. It grows with each change that older versions would misread; they
# leave such runs to newer workers.
RUN_FORMAT = 1

# A run that lost this many workers without a turn in between may kill them: it is isolated from then on.
SUSPECT_LOSSES = 2
# The prefix of the lane of an app's suspects. An app whose name has this prefix would have isolated runs, no more.
ISOLATED_LANE_PREFIX = "alone!"


class _RunIds:
    """Makes ULIDs that sort in the order of their creation in this process.

    That includes ids of the same millisecond: the queue is ordered by them.
    """

    def __init__(self) -> None:
        self._last = 0

    def next(self) -> str:
        number = (time.time_ns() // 1_000_000) << 80 | int.from_bytes(os.urandom(10))
        if number <= self._last or number >> 80 == self._last >> 80:
            number = self._last + 1 + int.from_bytes(os.urandom(4))
        self._last = number
        return "run_" + "".join([_TWO_DIGITS[number >> shift & 1023] for shift in _SHIFTS])


_DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_TWO_DIGITS = [one + other for one in _DIGITS for other in _DIGITS]
_SHIFTS = range(120, -1, -10)  # 26 digits are 130 bits, with the first two 0
new_run_id = _RunIds().next


def run_id_at(time: datetime) -> str:
    """Returns an id that sorts between runs accepted before this millisecond and those in it."""
    return f"run_{str(ULID.from_datetime(time))[:10]}"


@dataclass(frozen=True, slots=True)
class TriggerEvent:
    """An external event: its trigger, and the id that identifies the event."""

    type: str
    name: str
    id: str
    fired_at: datetime
    nominal_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class RunRequest:
    """The request for a run. Two requests with one dedupe key are one run."""

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
    keys_of: str | None = None  # the run whose idempotency keys its tools use; None: its own
    priority: int = DEFAULT_PRIORITY
    not_before: datetime | None = None  # durable at once, starts later
    order_key: str | None = None  # runs of an app with the same key run one at a time, in the order of acceptance
    order_seq: str | None = None  # an order given by the caller: compared as text, byte by byte
    ui_responses: Mapping[str, Any] | None = None  # of a trigger that no package declares; None: those of its package
    chain: tuple[str, ...] = ()  # the run_finished triggers, as workflow/trigger, that led here
    traceparent: str | None = None  # the caller's span in W3C format

    @property
    def dedupe_key(self) -> str:
        return build_dedupe_key(
            workflow=self.workflow,
            trigger_name=self.trigger.name,
            trigger_type=self.trigger.type,
            app_id=self.app_id,
            event_id=self.trigger.id,
        )


@dataclass(frozen=True, slots=True)
class Accepted:
    """A durable run.

    `created` is false if an earlier request with the same key made it. `ready`: a worker may take it now. `merged`: the
    request was merged into a run that waits for its quiet time.
    """

    run_id: str
    created: bool
    ready: bool = True
    merged: bool = False


class HoldKind(StrEnum):
    BUDGET = "budget"
    CONCURRENCY = "concurrency"
    RATE = "rate"


@dataclass(frozen=True, slots=True)
class Hold:
    """The reason why a queued run may not start.

    `by` names the one limit that holds it, such as `app:acme`; a limit with room queries for its own name. `until`: the
    time from which it has room, if known.
    """

    kind: HoldKind
    by: str
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """Ownership of a run until the lease ends.

    The fencing token is part of every later write.
    """

    run_id: str
    owner: str
    token: int
    document: Mapping[str, Any] = field(repr=False)

    @property
    def attempt(self) -> int:
        return int(self.document["attempt"])

    @property
    def is_isolated(self) -> bool:
        """Whether a process without other runs must work on it."""
        return bool(self.document.get("lease", {}).get("alone"))


def run_labels(run: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields of every log line about the run."""
    return {"run_id": run["_id"], "app_id": run["app_id"], "workflow": run["workflow"]}


class LeaseLostError(Exception):
    """Another owner holds the run now: stop at once and write nothing."""

    def __init__(self, claim: Claim) -> None:
        super().__init__(f"{claim.run_id}: lease token {claim.token} is no longer the newest")
        self.run_id = claim.run_id
