"""The filter of runs, used by lists, bulk changes and the tail."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from workers.store.run import NOT_SUCCEEDED, HoldKind, RunState

_MAY_SUCCEED = frozenset({"completed", "max_turns", "no_transition"})


@dataclass(frozen=True, slots=True)
class RunFilter:
    """A filter. None and empty values match everything.

    `since` and `until` apply to the time of acceptance.
    """

    app_id: str | None = None
    workflow: str | None = None
    states: tuple[RunState, ...] = ()
    trigger: str | None = None
    outcome: str | None = None
    hold: HoldKind | None = None
    since: datetime | None = None
    until: datetime | None = None

    def query(self) -> dict[str, Any]:
        plain = {"app_id": self.app_id, "workflow": self.workflow, "outcome.kind": self.outcome}
        query: dict[str, Any] = {name: value for name, value in plain.items() if value is not None}
        if self.trigger is not None:
            query["$or"] = [{"trigger.name": self.trigger}, {"trigger.type": self.trigger}]
        return query | self._time() | self._state()

    def _time(self) -> dict[str, Any]:
        bounds = {"$gte": self.since, "$lt": self.until}
        within = {sign: value for sign, value in bounds.items() if value is not None}
        return {"created_at": within} if within else {}

    def _state(self) -> dict[str, Any]:
        """Returns the conditions on the state.

        Conditions that follow from the filter are added, so that partial indexes can be used.
        """
        states = self._possible_states()
        conditions: dict[str, Any] = {} if self.hold is None else {"hold": self.hold.value}
        if not states:
            return conditions
        if states == (RunState.QUEUED,) and self.hold is None:
            conditions["hold"] = {"$in": [None, *(hold.value for hold in HoldKind)]}
        if states == (RunState.RUNNING,):
            conditions["lease.until"] = {"$type": "date"}
        names = [state.value for state in states]
        return {"state": names[0] if len(names) == 1 else {"$in": names}, **conditions}

    def _possible_states(self) -> tuple[RunState, ...]:
        if self.states:
            return self.states
        if self.hold is not None:
            return (RunState.QUEUED,)
        if self.outcome is not None and self.outcome not in _MAY_SUCCEED:
            return NOT_SUCCEEDED
        return ()

    def describe(self) -> str:
        """Describes the filter for people: `app acme, state parked`."""
        named: Mapping[str, Any] = {
            "app": self.app_id,
            "workflow": self.workflow,
            "state": " or ".join(state.value for state in self.states),
            "trigger": self.trigger,
            "outcome": self.outcome,
            "hold": self.hold and self.hold.value,
            "since": self.since and self.since.isoformat(timespec="seconds"),
            "until": self.until and self.until.isoformat(timespec="seconds"),
        }
        return ", ".join(f"{name} {value}" for name, value in named.items() if value) or "all runs"


EVERYTHING = RunFilter()
