"""Happenings: what has happened to a run between two looks at it, in order, one by one. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from workers.store.run import RunState

_STATES = frozenset(state.value for state in RunState)
ENDED = _STATES - {RunState.QUEUED.value, RunState.RUNNING.value}


@dataclass(frozen=True, slots=True)
class Happening:
    """`at` is None where nobody noted the time. `facts` depend on the event."""

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
class Told:
    """How much of a run has been told."""

    accepted: bool = False
    claimed: int = 0  # the highest token whose owner is known
    let_go: int = 0  # the highest token whose owner is known to have let go
    turn: int = 0
    state: str | None = None
    hold: str | None = None
    not_before: datetime | None = None
    asked: bool = False
    resolved: bool = False


def told_of(run: Mapping[str, Any]) -> Told:
    """All that the document says."""
    lines = run.get("history") or []
    return Told(
        accepted=True,
        claimed=run["lease"]["token"],
        let_go=max((line["token"] for line in lines), default=0),
        turn=run["turn"],
        state=run["state"],
        hold=run["hold"],
        not_before=run.get("not_before"),
        asked=bool(run.get("cancel_requested")),
        resolved=bool(run.get("resolved")),
    )


def told_before(run: Mapping[str, Any], moment: datetime) -> Told:
    """For a run that is met for the first time: what was so before that moment is no news."""
    if run["created_at"] >= moment:
        return Told()
    earlier = [line for line in run.get("history") or [] if line["until"] < moment]
    let_go = max((line["token"] for line in earlier), default=0)
    going = _is_before(run["claimed_at"], moment)
    return Told(
        accepted=True,
        claimed=run["lease"]["token"] if going else let_go,
        let_go=let_go,
        turn=run["turn"] if going else (earlier[-1]["turn"] if earlier else 0),
        state=run["state"] if _is_before(run["finished_at"], moment) else None,
        hold=run["hold"],
        not_before=run.get("not_before"),
        asked=_is_before((run.get("cancel_requested") or {}).get("at"), moment),
        resolved=_is_before((run.get("resolved") or {}).get("at"), moment),
    )


def _is_before(at: datetime | None, moment: datetime) -> bool:
    return at is not None and at < moment


def happenings(told: Told, run: Mapping[str, Any], turns: Sequence[Mapping[str, Any]]) -> Iterator[Happening]:
    """`turns`: those after `told.turn` that the run counts, in order."""

    def happened(event: str, at: datetime | None, **facts: Any) -> Happening:
        return Happening(event, at, run["_id"], run["app_id"], run["workflow"], facts)

    if not told.accepted:
        yield happened("accepted", run["created_at"], trigger=run["trigger"]["name"])
    waiting = list(turns)
    for event, at, facts in (*_owners(told, run), *_changes(told, run)):
        while waiting and waiting[0]["number"] <= _turns_before(event, facts):
            yield happened("turn", None, **_shown(waiting.pop(0)))
        yield happened(event, at, **facts)
    for turn in waiting:
        yield happened("turn", None, **_shown(turn))


def _turns_before(event: str, facts: Mapping[str, Any]) -> float:
    """An owner's turns stand before its letting go, and all of them before what came of the run."""
    if event == "claimed":
        return 0
    return float(facts["turn"]) if event == "let_go" else float("inf")


_Found = Iterator[tuple[str, datetime | None, dict[str, Any]]]


def _owners(told: Told, run: Mapping[str, Any]) -> _Found:
    """Who had it, and how each let go: also those who came and went between the two looks."""
    lines = run.get("history") or []
    for line in lines:
        if line["token"] > told.claimed:
            yield "claimed", line["from"], {"owner": line["owner"], "token": line["token"]}
        is_end = line is lines[-1] and line["ended"] == run["state"]  # which is told with the outcome
        if line["token"] > told.let_go and not is_end:
            yield "let_go", line["until"], {name: line[name] for name in ("turn", "ended", "reason")}
    lease = run["lease"]
    if lease["owner"] is not None and lease["token"] > told.claimed:
        yield "claimed", run["claimed_at"], {"owner": lease["owner"], "token": lease["token"]}


def _changes(told: Told, run: Mapping[str, Any]) -> _Found:
    asked, resolved = run.get("cancel_requested"), run.get("resolved")
    if asked and not told.asked:
        yield "cancel_requested", asked["at"], {"by": asked["by"]}
    if told.state == RunState.NEEDS_HUMAN.value and run["state"] in {RunState.QUEUED.value, RunState.RUNNING.value}:
        yield "answered", None, {}
    if run["hold"] is not None and run["hold"] != told.hold:
        yield "held", None, {"hold": run["hold"], "held_by": run.get("held_by")}
    if run["state"] == RunState.QUEUED.value and run.get("not_before") and run["not_before"] != told.not_before:
        yield "due", None, {"not_before": run["not_before"]}
    if resolved and not told.resolved:
        yield "resolved", resolved["at"], {name: resolved.get(name) for name in ("how", "by", "run_id")}
    if run["state"] in ENDED and run["state"] != told.state:
        outcome = run["outcome"] or {}
        facts = {"state": run["state"], "outcome": outcome.get("kind"), "reason": outcome.get("reason")}
        yield "ended", run["finished_at"], facts


def _shown(turn: Mapping[str, Any]) -> dict[str, Any]:
    ours = {"_id", "token", "run_id", "app_id"}
    return {name: value for name, value in turn.items() if name not in ours}
