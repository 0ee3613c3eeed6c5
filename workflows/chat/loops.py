"""Loops: whether a chat does the same again and again, told from its transcript alone.

So a chat that another worker goes on with is stopped where it would have been stopped anyway.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workflows.chat.transcript import Turn
from workflows.package.models import USER

# A model that gets the same answer to the same calls four times learns nothing from the fifth. Retries that authors
# ask for ("try three times") stay below. Several rounds that take turns look more like work, so they may come four
# times over. A whole turn costs more than a round, but agents also agree with each other in the same few words.
SAME_ROUNDS = 5
ROUNDS_OVER = 4
SAME_TURNS = 8
TURNS_OVER = 6
PERIODS = (2, 3, 4)
LONGEST_SEEN = max(PERIODS) * max(ROUNDS_OVER, TURNS_OVER)

Line = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Repetition:
    """`period` steps, `times` over."""

    period: int
    times: int

    def words(self, step: str) -> str:
        if self.period == 1:
            return f"the same {step} {self.times} times in a row"
        return f"the same {self.period} {step}s {self.times} times over"


@dataclass(frozen=True, slots=True)
class Round:
    """The tool calls of one answer, and what they were answered; nothing yet for those that are only wanted."""

    agent: str
    calls: Sequence[Line]
    results: Sequence[Line] = ()

    def names(self) -> Any:
        return self.agent, [call["name"] for call in self.calls]

    def asked(self) -> Any:
        return self.agent, [(call["name"], _canonical(call["arguments"])) for call in self.calls]

    def answered(self) -> Any:
        return sorted((result["name"], result["text"]) for result in self.results)  # they end in any order


def repeated_rounds(turns: Sequence[Turn], agent: str, lines: Iterable[Line]) -> Repetition | None:
    """`lines` are those of the turn in progress; the last one is an answer whose tools have not been called. The same
    calls with other answers are no loop: so one asks whether a job is done, or takes the next of many."""
    rounds = [*_rounds_without_progress(turns), *_rounds(agent, lines)][-LONGEST_SEEN:]
    found = _repetition(rounds, Round.names, SAME_ROUNDS, ROUNDS_OVER)
    found = found and _repetition(rounds, Round.asked, SAME_ROUNDS, ROUNDS_OVER)
    if found is None:
        return None
    compared = rounds[-found.period * found.times : -1]
    same = all(one.answered() == compared[place % found.period].answered() for place, one in enumerate(compared))
    return found if same else None


def repeated_turns(turns: Sequence[Turn]) -> Repetition | None:
    """A turn that changed the context is progress, whatever it says, and so is one that a person took."""
    since = _since_progress(turns)
    found = _repetition(since, _said, SAME_TURNS, TURNS_OVER)
    return found and _repetition(since, _said_and_done, SAME_TURNS, TURNS_OVER)


def turns_in_a_row(turns: Sequence[Turn], agent: str) -> int:
    return next((place for place, turn in enumerate(reversed(turns)) if turn.agent != agent), len(turns))


def _repetition(steps: Sequence[Any], signature: Callable[[Any], Any], same: int, times_over: int) -> Repetition | None:
    for period in (1, *PERIODS):
        times = same if period == 1 else times_over
        if len(steps) >= period * times and _repeats(steps[-period * times :], period, signature):
            return Repetition(period, times)
    return None


def _repeats(steps: Sequence[Any], period: int, signature: Callable[[Any], Any]) -> bool:
    """The newest first: in a chat that gets on, the first comparison is the last."""
    return all(
        signature(steps[place]) == signature(steps[place - period]) for place in range(len(steps) - 1, period - 1, -1)
    )


def _since_progress(turns: Sequence[Turn]) -> Sequence[Turn]:
    recent = turns[-LONGEST_SEEN:]
    progress = [place for place, turn in enumerate(recent) if turn.context_changes or turn.agent == USER]
    return recent[progress[-1] + 1 :] if progress else recent


def _rounds_without_progress(turns: Sequence[Turn]) -> Iterable[Round]:
    """Of earlier turns only those count in which everybody said what they say ever since: agents that look the same
    thing up in each of their turns, and have something new to say about it, are at work."""
    since = _since_progress(turns)
    last = {turn.agent: turn.text for turn in since}
    new = [place for place, turn in enumerate(since) if turn.text != last[turn.agent]]
    return [each for turn in since[new[-1] + 1 if new else 0 :] for each in _rounds(turn.agent, turn.events)]


def _rounds(agent: str, lines: Iterable[Line]) -> list[Round]:
    rounds: list[Round] = []
    for line in lines:
        if line.get("tool_calls"):
            rounds.append(Round(agent, line["tool_calls"]))
        elif rounds and line.get("tool_results"):
            rounds[-1] = Round(agent, rounds[-1].calls, line["tool_results"])
    return rounds


def _said(turn: Turn) -> Any:
    return turn.agent, turn.text


def _said_and_done(turn: Turn) -> Any:
    return _said(turn), [each.asked() for each in _rounds(turn.agent, turn.events)]


def _canonical(arguments: str | None) -> str:
    """Models write the same arguments with other spaces and in another order."""
    try:
        return json.dumps(json.loads(arguments or "{}"), sort_keys=True)
    except (ValueError, RecursionError):
        return arguments or ""
