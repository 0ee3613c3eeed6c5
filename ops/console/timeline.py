"""The timeline of a run: its owners, what each of them did turn by turn, and where in the run's time that was."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from workers.local_run.report import TurnReport, turn_report

LEAST_WIDTH = 0.6  # per cent: what took no time is seen all the same

Row = Mapping[str, Any]
Story = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Bar:
    """In per cent of the run's time."""

    start: float
    width: float


@dataclass(frozen=True, slots=True)
class ShownTurn:
    """`cost_usd` is None where the ledger has no price, or cannot tell which calls were this turn's."""

    number: int
    said: TurnReport
    bar: Bar | None
    models: tuple[str, ...]
    cost_usd: float | None


@dataclass(frozen=True, slots=True)
class Owner:
    """`line` is its line in the run's history; None of one that is still at work."""

    line: Row | None
    bar: Bar | None
    turns: tuple[ShownTurn, ...]


@dataclass(frozen=True, slots=True)
class Span:
    start: datetime
    end: datetime

    def bar(self, start: datetime | None, lasting_s: float) -> Bar | None:
        whole_s = (self.end - self.start) / timedelta(seconds=1)
        if start is None or whole_s <= 0:
            return None
        at = min(max((start - self.start) / timedelta(seconds=1) / whole_s * 100, 0.0), 100 - LEAST_WIDTH)
        return Bar(round(at, 2), round(min(max(lasting_s / whole_s * 100, LEAST_WIDTH), 100 - at), 2))


def owners_of(story: Story, rows: Sequence[Row], *, now: datetime) -> Iterator[Owner]:
    """`rows`: the run's part of the ledger, in the order of its calls."""
    span = _span(story, now)
    turns = list(story["turns"])
    waiting = list(rows)
    for line in story.get("history") or []:
        own = [turn for turn in turns if turn["number"] <= line["turn"]]
        turns = turns[len(own) :]
        begun = line["from"] or line["until"]
        bar = None if span is None else span.bar(begun, (line["until"] - begun) / timedelta(seconds=1))
        yield Owner(line, bar, tuple(_turns(own, waiting, line["token"], begun, span)))
    token, since = (story.get("lease") or {}).get("token", 0), story.get("started_at")
    if turns or story["state"] == "running":
        yield Owner(None, None, tuple(_turns(turns, waiting, token, since, span)))


def _span(story: Story, now: datetime) -> Span | None:
    started = story.get("started_at")
    return None if started is None else Span(started, story.get("finished_at") or now)


def _turns(
    turns: Sequence[Row], waiting: list[Row], token: int, since: datetime | None, span: Span | None
) -> Iterator[ShownTurn]:
    at = since
    for turn in turns:
        said = turn_report(turn)
        calls = calls_of(said, waiting, token)
        start = calls[0]["at"] if calls else at
        at = None if start is None else start + timedelta(seconds=said.duration_s)
        models = tuple(dict.fromkeys(str(call["model"]) for call in calls))
        bar = None if span is None else span.bar(start, said.duration_s)
        yield ShownTurn(turn["number"], said, bar, models, _cost_of(said, calls))


def calls_of(said: TurnReport, waiting: list[Row], token: int) -> list[Row]:
    """Takes from `waiting` the calls of this turn: those of its agent under its owner's lease, as many as make up its
    tokens. What an earlier lease began and nobody committed is passed over."""
    while waiting and _lease_of(waiting[0]) < token:
        waiting.pop(0)
    taken: list[Row] = []
    wanted = said.tokens.get("input", 0) + said.tokens.get("output", 0)
    while waiting and _lease_of(waiting[0]) == token and waiting[0]["agent"] == said.agent:
        if taken and _tokens_of(taken) >= wanted:
            break
        taken.append(waiting.pop(0))
    return taken


def _cost_of(said: TurnReport, calls: Sequence[Row]) -> float | None:
    wanted = said.tokens.get("input", 0) + said.tokens.get("output", 0)
    if not calls or _tokens_of(calls) != wanted or any(call["cost_nano_usd"] is None for call in calls if call["ok"]):
        return None
    return sum(call["cost_nano_usd"] or 0 for call in calls) / 1e9


def _tokens_of(calls: Sequence[Row]) -> int:
    return sum(int(call["input_tokens"]) + int(call["output_tokens"]) for call in calls)


def _lease_of(row: Row) -> int:
    """A row's id is run:lease:number."""
    return int(str(row["_id"]).split(":")[1])
