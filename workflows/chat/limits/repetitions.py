"""Repetitions: detects a chat that repeats itself, from its transcript alone.

So another worker that resumes the chat stops it at the same point.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workflows.chat.history.transcript import Turn
from workflows.package.normal_form.package_model import USER

# A model that gets the same answer to the same calls four times learns nothing from a fifth. Retries that authors ask
# for ("try three times") stay below. Rounds in a cycle look more like work, so a cycle may come four times. A whole
# turn costs more than a round, but agents also agree with each other in the same few words.
MAX_SAME_ROUNDS = 5
MAX_ROUND_CYCLES = 4
MAX_SAME_TURNS = 8
MAX_TURN_CYCLES = 6
CYCLE_LENGTHS = (2, 3, 4)
MAX_STEPS_COMPARED = max(CYCLE_LENGTHS) * max(MAX_ROUND_CYCLES, MAX_TURN_CYCLES)

Line = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Repetition:
    """A cycle of `period` steps that came `times` times."""

    period: int
    times: int

    def describe(self, step: str) -> str:
        if self.period == 1:
            return f"the same {step} {self.times} times in a row"
        return f"the same {self.period} {step}s {self.times} times over"


@dataclass(frozen=True, slots=True)
class ToolRound:
    """The tool calls of one answer and their results; none yet for calls still wanted."""

    agent: str
    calls: Sequence[Line]
    results: Sequence[Line] = ()

    def names_signature(self) -> Any:
        return self.agent, [call["name"] for call in self.calls]

    def calls_signature(self) -> Any:
        return self.agent, [(call["name"], _canonical_arguments(call["arguments"])) for call in self.calls]

    def results_signature(self) -> Any:
        return sorted((result["name"], result["text"]) for result in self.results)  # they finish in any order


def find_repeated_rounds(turns: Sequence[Turn], agent: str, lines: Iterable[Line]) -> Repetition | None:
    """Finds a cycle of tool rounds with equal results.

    `lines` are those of the turn in progress; the last one is an answer whose tools have not been called. Equal calls
    with different results are no loop: that is how an agent polls a job or takes the next of many items."""
    rounds = [*_rounds_without_progress(turns), *_rounds(agent, lines)][-MAX_STEPS_COMPARED:]
    found = _find_repetition(rounds, ToolRound.names_signature, MAX_SAME_ROUNDS, MAX_ROUND_CYCLES)
    found = found and _find_repetition(rounds, ToolRound.calls_signature, MAX_SAME_ROUNDS, MAX_ROUND_CYCLES)
    if found is None:
        return None
    compared = rounds[-found.period * found.times : -1]
    same = all(
        one.results_signature() == compared[place % found.period].results_signature()
        for place, one in enumerate(compared)
    )
    return found if same else None


def find_repeated_turns(turns: Sequence[Turn]) -> Repetition | None:
    """Finds a cycle of turns.

    A turn that changed the context, or that a person took, counts as progress."""
    since = _turns_since_progress(turns)
    found = _find_repetition(since, _text_signature, MAX_SAME_TURNS, MAX_TURN_CYCLES)
    return found and _find_repetition(since, _turn_signature, MAX_SAME_TURNS, MAX_TURN_CYCLES)


def count_turns_in_a_row(turns: Sequence[Turn], agent: str) -> int:
    return next((place for place, turn in enumerate(reversed(turns)) if turn.agent != agent), len(turns))


def _find_repetition(
    steps: Sequence[Any], signature: Callable[[Any], Any], max_same: int, max_cycles: int
) -> Repetition | None:
    for period in (1, *CYCLE_LENGTHS):
        times = max_same if period == 1 else max_cycles
        if len(steps) >= period * times and _is_repetition(steps[-period * times :], period, signature):
            return Repetition(period, times)
    return None


def _is_repetition(steps: Sequence[Any], period: int, signature: Callable[[Any], Any]) -> bool:
    """Compares the newest steps first: without a repetition one comparison is enough."""
    return all(
        signature(steps[place]) == signature(steps[place - period]) for place in range(len(steps) - 1, period - 1, -1)
    )


def _turns_since_progress(turns: Sequence[Turn]) -> Sequence[Turn]:
    recent = turns[-MAX_STEPS_COMPARED:]
    progress = [place for place, turn in enumerate(recent) if turn.context_changes or turn.agent == USER]
    return recent[progress[-1] + 1 :] if progress else recent


def _rounds_without_progress(turns: Sequence[Turn]) -> Iterable[ToolRound]:
    """Returns the rounds since an agent's text last changed.

    Agents that look the same thing up in each turn and say something new about it are at work."""
    since = _turns_since_progress(turns)
    last = {turn.agent: turn.text for turn in since}
    new = [place for place, turn in enumerate(since) if turn.text != last[turn.agent]]
    return [
        tool_round for turn in since[new[-1] + 1 if new else 0 :] for tool_round in _rounds(turn.agent, turn.events)
    ]


def _rounds(agent: str, lines: Iterable[Line]) -> list[ToolRound]:
    rounds: list[ToolRound] = []
    for line in lines:
        if line.get("tool_calls"):
            rounds.append(ToolRound(agent, line["tool_calls"]))
        elif rounds and line.get("tool_results"):
            rounds[-1] = ToolRound(agent, rounds[-1].calls, line["tool_results"])
    return rounds


def _text_signature(turn: Turn) -> Any:
    return turn.agent, turn.text


def _turn_signature(turn: Turn) -> Any:
    return _text_signature(turn), [tool_round.calls_signature() for tool_round in _rounds(turn.agent, turn.events)]


def _canonical_arguments(arguments: str | None) -> str:
    """Normalizes JSON arguments: models vary spaces and the order of keys."""
    try:
        return json.dumps(json.loads(arguments or "{}"), sort_keys=True)
    except (ValueError, RecursionError):
        return arguments or ""
