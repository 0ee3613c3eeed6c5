"""The timeline of a run: its owners, what each of them did turn by turn, and where in the run's time that was."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from workers.local_run.report import TurnReport, turn_report

MIN_WIDTH_PERCENT = 0.6  # per cent: what took no time is seen all the same

Row = Mapping[str, Any]
Story = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TimelineBar:
    """In per cent of the run's time."""

    start: float
    width: float


@dataclass(frozen=True, slots=True)
class TurnView:
    """`cost_usd` is None where the ledger has no price, or cannot tell which calls were this turn's."""

    number: int
    report: TurnReport
    bar: TimelineBar | None
    models: tuple[str, ...]
    cost_usd: float | None


@dataclass(frozen=True, slots=True)
class OwnerView:
    """`line` is its line in the run's history; None of one that is still at work."""

    line: Row | None
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
    """`rows`: the run's part of the ledger, in the order of its calls."""
    span = _run_span(story, now)
    turns = list(story["turns"])
    waiting = list(rows)
    for line in story.get("history") or []:
        own = [turn for turn in turns if turn["number"] <= line["turn"]]
        turns = turns[len(own) :]
        begun = line["from"] or line["until"]
        bar = None if span is None else span.bar(begun, (line["until"] - begun) / timedelta(seconds=1))
        yield OwnerView(line, bar, tuple(_turn_views(own, waiting, line["token"], begun, span)))
    token, since = (story.get("lease") or {}).get("token", 0), story.get("started_at")
    if turns or story["state"] == "running":
        yield OwnerView(None, None, tuple(_turn_views(turns, waiting, token, since, span)))


def _run_span(story: Story, now: datetime) -> TimeSpan | None:
    started = story.get("started_at")
    return None if started is None else TimeSpan(started, story.get("finished_at") or now)


def _turn_views(
    turns: Sequence[Row], waiting: list[Row], token: int, since: datetime | None, span: TimeSpan | None
) -> Iterator[TurnView]:
    at = since
    for turn in turns:
        said = turn_report(turn)
        calls = take_turn_calls(said, waiting, token)
        start = calls[0]["at"] if calls else at
        at = None if start is None else start + timedelta(seconds=said.duration_s)
        models = tuple(dict.fromkeys(str(call["model"]) for call in calls))
        bar = None if span is None else span.bar(start, said.duration_s)
        yield TurnView(turn["number"], said, bar, models, _turn_cost(said, calls))


def take_turn_calls(report: TurnReport, remaining: list[Row], token: int) -> list[Row]:
    """Takes from `waiting` the calls of this turn: those of its agent under its owner's lease, as many as make up its
    tokens. What an earlier lease began and nobody committed is passed over."""
    while remaining and _lease_token(remaining[0]) < token:
        remaining.pop(0)
    taken: list[Row] = []
    wanted = report.tokens.get("input", 0) + report.tokens.get("output", 0)
    while remaining and _lease_token(remaining[0]) == token and remaining[0]["agent"] == report.agent:
        if taken and _total_tokens(taken) >= wanted:
            break
        taken.append(remaining.pop(0))
    return taken


def _turn_cost(report: TurnReport, calls: Sequence[Row]) -> float | None:
    wanted = report.tokens.get("input", 0) + report.tokens.get("output", 0)
    if (
        not calls
        or _total_tokens(calls) != wanted
        or any(call["cost_nano_usd"] is None for call in calls if call["ok"])
    ):
        return None
    return sum(call["cost_nano_usd"] or 0 for call in calls) / 1e9


def _total_tokens(calls: Sequence[Row]) -> int:
    return sum(int(call["input_tokens"]) + int(call["output_tokens"]) for call in calls)


def _lease_token(row: Row) -> int:
    """A row's id is run:lease:number."""
    return int(str(row["_id"]).split(":")[1])
