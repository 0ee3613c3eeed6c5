"""Run events: what happened to a run between two reads of it, in order. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from workers.store.run import RunState

_STATES = frozenset(state.value for state in RunState)
ENDED = _STATES - {RunState.QUEUED.value, RunState.RUNNING.value}


@dataclass(frozen=True, slots=True)
class RunEvent:
    """`at` is None if no time was stored. `facts` depend on the event."""

    event: str  # accepted, claimed, turn, let_go, held, due, cancel_requested, answered, ended, resolved
    at: datetime | None
    run_id: str
    app_id: str
    workflow: str
    facts: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return {
            "at": self.at,
            "run_id": self.run_id,
            "app_id": self.app_id,
            "workflow": self.workflow,
            "event": self.event,
            **self.facts,
        }


@dataclass(frozen=True, slots=True)
class EventCursor:
    """How much of a run the follower has reported."""

    is_accepted: bool = False
    claimed_token: int = 0  # the highest token whose claim was reported
    released_token: int = 0  # the highest token whose release was reported
    turn: int = 0
    state: str | None = None
    hold: str | None = None
    not_before: datetime | None = None
    is_cancel_requested: bool = False
    is_resolved: bool = False


def cursor_of(run: Mapping[str, Any]) -> EventCursor:
    """Returns the cursor after all events in the document."""
    lines = run.get("history") or []
    return EventCursor(
        is_accepted=True,
        claimed_token=run["lease"]["token"],
        released_token=max((line["token"] for line in lines), default=0),
        turn=run["turn"],
        state=run["state"],
        hold=run["hold"],
        not_before=run.get("not_before"),
        is_cancel_requested=bool(run.get("cancel_requested")),
        is_resolved=bool(run.get("resolved")),
    )


def cursor_before(run: Mapping[str, Any], moment: datetime) -> EventCursor:
    """Returns the cursor for a run that is read for the first time.

    Events before `moment` are not reported.
    """
    if run["created_at"] >= moment:
        return EventCursor()
    earlier = [line for line in run.get("history") or [] if line["until"] < moment]
    released_token = max((line["token"] for line in earlier), default=0)
    going = _is_before(run["claimed_at"], moment)
    return EventCursor(
        is_accepted=True,
        claimed_token=run["lease"]["token"] if going else released_token,
        released_token=released_token,
        turn=run["turn"] if going else (earlier[-1]["turn"] if earlier else 0),
        state=run["state"] if _is_before(run["finished_at"], moment) else None,
        hold=run["hold"],
        not_before=run.get("not_before"),
        is_cancel_requested=_is_before((run.get("cancel_requested") or {}).get("at"), moment),
        is_resolved=_is_before((run.get("resolved") or {}).get("at"), moment),
    )


def _is_before(at: datetime | None, moment: datetime) -> bool:
    return at is not None and at < moment


def events_since(cursor: EventCursor, run: Mapping[str, Any], turns: Sequence[Mapping[str, Any]]) -> Iterator[RunEvent]:
    """Yields the events after the cursor. `turns`: the counted turns after `cursor.turn`, in order."""

    def make_event(event: str, at: datetime | None, **facts: Any) -> RunEvent:
        return RunEvent(event, at, run["_id"], run["app_id"], run["workflow"], facts)

    if not cursor.is_accepted:
        yield make_event("accepted", run["created_at"], trigger=run["trigger"]["name"])
    waiting = list(turns)
    for event, at, facts in (*_owner_events(cursor, run), *_state_events(cursor, run)):
        while waiting and waiting[0]["number"] <= _turns_before(event, facts):
            yield make_event("turn", None, **_turn_facts(waiting.pop(0)))
        yield make_event(event, at, **facts)
    for turn in waiting:
        yield make_event("turn", None, **_turn_facts(turn))


def _turns_before(event: str, facts: Mapping[str, Any]) -> float:
    """Returns up to which turn turns are reported before this event.

    The turns of an owner precede its release, and all turns precede the result of the run.
    """
    if event == "claimed":
        return 0
    return float(facts["turn"]) if event == "let_go" else float("inf")


_FoundEvents = Iterator[tuple[str, datetime | None, dict[str, Any]]]


def _owner_events(cursor: EventCursor, run: Mapping[str, Any]) -> _FoundEvents:
    """Yields claims and releases, including owners that came and went between the two reads."""
    lines = run.get("history") or []
    for line in lines:
        if line["token"] > cursor.claimed_token:
            yield "claimed", line["from"], {"owner": line["owner"], "token": line["token"]}
        is_end = line is lines[-1] and line["ended"] == run["state"]  # reported with the outcome
        if line["token"] > cursor.released_token and not is_end:
            yield "let_go", line["until"], {name: line[name] for name in ("turn", "ended", "reason")}
    lease = run["lease"]
    if lease["owner"] is not None and lease["token"] > cursor.claimed_token:
        yield "claimed", run["claimed_at"], {"owner": lease["owner"], "token": lease["token"]}


def _state_events(cursor: EventCursor, run: Mapping[str, Any]) -> _FoundEvents:
    asked, resolved = run.get("cancel_requested"), run.get("resolved")
    if asked and not cursor.is_cancel_requested:
        yield "cancel_requested", asked["at"], {"by": asked["by"]}
    if cursor.state == RunState.NEEDS_HUMAN.value and run["state"] in {RunState.QUEUED.value, RunState.RUNNING.value}:
        yield "answered", None, {}
    if run["hold"] is not None and run["hold"] != cursor.hold:
        yield "held", None, {"hold": run["hold"], "held_by": run.get("held_by")}
    if run["state"] == RunState.QUEUED.value and run.get("not_before") and run["not_before"] != cursor.not_before:
        yield "due", None, {"not_before": run["not_before"]}
    if resolved and not cursor.is_resolved:
        yield "resolved", resolved["at"], {name: resolved.get(name) for name in ("how", "by", "run_id")}
    if run["state"] in ENDED and run["state"] != cursor.state:
        outcome = run["outcome"] or {}
        facts = {"state": run["state"], "outcome": outcome.get("kind"), "reason": outcome.get("reason")}
        yield "ended", run["finished_at"], facts


def _turn_facts(turn: Mapping[str, Any]) -> dict[str, Any]:
    ours = {"_id", "token", "run_id", "app_id"}
    return {name: value for name, value in turn.items() if name not in ours}
