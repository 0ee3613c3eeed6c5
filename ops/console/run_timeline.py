"""The timeline of a run: its owners, their turns, and where in the run's time each was."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from workers.local_run.report import TurnReport, turn_report

MIN_WIDTH_PERCENT = 0.6  # keeps bars of short turns visible

Row = Mapping[str, Any]
Story = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TimelineBar:
    """Start and width in per cent of the run's time."""

    start: float
    width: float


@dataclass(frozen=True, slots=True)
class TurnView:
    """`cost_usd` is None if a price is unknown, or if the ledger's rows do not add up to this turn."""

    number: int
    report: TurnReport
    bar: TimelineBar | None
    models: tuple[str, ...]
    cost_usd: float | None


@dataclass(frozen=True, slots=True)
class OwnerView:
    """`lease` is the owner's entry in the run's history; None for the present owner."""

    lease: Row | None
    bar: TimelineBar | None
    turns: tuple[TurnView, ...]


@dataclass(frozen=True, slots=True)
class TimeSpan:
    start: datetime
    end: datetime

    def bar(self, start: datetime | None, duration_s: float) -> TimelineBar | None:
        whole_s = (self.end - self.start) / timedelta(seconds=1)
        if start is None or whole_s <= 0:
            return None
        at = min(max((start - self.start) / timedelta(seconds=1) / whole_s * 100, 0.0), 100 - MIN_WIDTH_PERCENT)
        return TimelineBar(round(at, 2), round(min(max(duration_s / whole_s * 100, MIN_WIDTH_PERCENT), 100 - at), 2))


def owner_views(story: Story, rows: Sequence[Row], *, now: datetime) -> Iterator[OwnerView]:
    """Yield the owners; `rows` are the run's rows of the ledger, in the order of the calls."""
    span = _run_span(story, now)
    turns = list(story["turns"])
    remaining = list(rows)
    for lease in story.get("history") or []:
        own_turns = [turn for turn in turns if turn["number"] <= lease["turn"]]
        turns = turns[len(own_turns) :]
        start = lease["from"] or lease["until"]
        bar = None if span is None else span.bar(start, (lease["until"] - start) / timedelta(seconds=1))
        yield OwnerView(lease, bar, tuple(_turn_views(own_turns, remaining, lease["token"], start, span)))
    token, since = (story.get("lease") or {}).get("token", 0), story.get("started_at")
    if turns or story["state"] == "running":
        yield OwnerView(None, None, tuple(_turn_views(turns, remaining, token, since, span)))


def _run_span(story: Story, now: datetime) -> TimeSpan | None:
    started = story.get("started_at")
    return None if started is None else TimeSpan(started, story.get("finished_at") or now)


def _turn_views(
    turns: Sequence[Row], remaining: list[Row], token: int, since: datetime | None, span: TimeSpan | None
) -> Iterator[TurnView]:
    previous_end = since
    for turn in turns:
        report = turn_report(turn)
        calls = take_turn_calls(report, remaining, token)
        start = calls[0]["at"] if calls else previous_end
        previous_end = None if start is None else start + timedelta(seconds=report.duration_s)
        models = tuple(dict.fromkeys(str(call["model"]) for call in calls))
        bar = None if span is None else span.bar(start, report.duration_s)
        yield TurnView(turn["number"], report, bar, models, _turn_cost(report, calls))


def take_turn_calls(report: TurnReport, remaining: list[Row], token: int) -> list[Row]:
    """Take this turn's calls from `remaining`: its agent's, under its lease, until they add up to its tokens.

    Calls of an earlier lease are skipped if their turn was never committed.
    """
    while remaining and _lease_token(remaining[0]) < token:
        remaining.pop(0)
    calls: list[Row] = []
    turn_tokens = report.tokens.get("input", 0) + report.tokens.get("output", 0)
    while remaining and _lease_token(remaining[0]) == token and remaining[0]["agent"] == report.agent:
        if calls and _total_tokens(calls) >= turn_tokens:
            break
        calls.append(remaining.pop(0))
    return calls


def _turn_cost(report: TurnReport, calls: Sequence[Row]) -> float | None:
    turn_tokens = report.tokens.get("input", 0) + report.tokens.get("output", 0)
    is_unpriced = any(call["cost_nano_usd"] is None for call in calls if call["ok"])
    if not calls or is_unpriced or _total_tokens(calls) != turn_tokens:
        return None
    return sum(call["cost_nano_usd"] or 0 for call in calls) / 1e9


def _total_tokens(calls: Sequence[Row]) -> int:
    return sum(int(call["input_tokens"]) + int(call["output_tokens"]) for call in calls)


def _lease_token(row: Row) -> int:
    """Read the token from a row's id, which is run:lease:number."""
    return int(str(row["_id"]).split(":")[1])
