"""Checkpoints: the state of a chat after a turn, as versioned plain JSON.

Any later worker can resume from one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from workflows.chat.history.transcript import Turn
from workflows.outcome import Outcome

VERSION = 1


class CheckpointError(ValueError):
    """This version cannot resume from the checkpoint; the text gives the reason."""


@dataclass(slots=True)
class RunCounters:
    """What a run has used, over all attempts.

    `answered` and `failed` are model calls by agent. Answers count when their turn is committed, since a repeated turn
    gets them again. So do `failed_tools`, the failed calls of the package's tools, lifecycle tools and hooks."""

    model_calls: int = 0
    tool_calls: int = 0
    tokens: int = 0
    cost_nano_usd: int = 0
    worked_s: float = 0.0
    answered: dict[str, int] = field(default_factory=dict)
    failed: dict[str, int] = field(default_factory=dict)
    failed_tools: int = 0

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(raw: Mapping[str, Any]) -> "RunCounters":
        known = {name: raw[name] for name in RunCounters.__slots__ if name in raw}
        return RunCounters(
            **{**known, "answered": dict(raw.get("answered", {})), "failed": dict(raw.get("failed", {}))}
        )


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """State after a turn.

    `final_outcome` is set when the last turn was the end and only the outcome is left to write."""

    turns: Sequence[Turn]
    context: Mapping[str, Any]
    next_agent: str | None
    counters: RunCounters = field(default_factory=RunCounters)
    final_outcome: Outcome | None = None

    def progress(self) -> dict[str, Any]:
        """Returns the counters and the outcome; a store keeps the rest in its own fields."""
        ended = None if self.final_outcome is None else self.final_outcome.as_document()
        return {"version": VERSION, "counters": self.counters.as_json(), "ended": ended}

    def as_json(self) -> dict[str, Any]:
        return {
            **self.progress(),
            "turns": [turn.as_document() for turn in self.turns],
            "context": dict(self.context),
            "next_agent": self.next_agent,
        }

    @staticmethod
    def from_json(raw: Mapping[str, Any]) -> "Checkpoint":
        counters, ended = read_progress(raw)
        turns = tuple(Turn.from_document(turn) for turn in raw["turns"])
        return Checkpoint(turns, dict(raw["context"]), raw["next_agent"], counters, ended)


def read_progress(raw: Mapping[str, Any] | None) -> tuple[RunCounters, Outcome | None]:
    """Reads the progress; none yet is the beginning.

    What a newer version wrote is refused, since its meaning is unknown."""
    if raw is None:
        return RunCounters(), None
    version = raw.get("version")
    if version != VERSION:
        raise CheckpointError(
            f"the checkpoint has version {version!r} and this worker knows {VERSION}; let a newer worker resume it"
        )
    ended = raw.get("ended")
    return RunCounters.from_json(raw.get("counters", {})), None if ended is None else Outcome.from_document(ended)
