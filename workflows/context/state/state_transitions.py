"""Observations of a turn, and the state transitions that they trigger.

A trigger is deterministic: it sees one finished turn, or one event between turns, and nothing else, so a resumed run
derives the same state. A new type of trigger is one module in `workflows/context/observers/`.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol


class Unset:
    """Differs from null, which is a value like any other."""

    def __repr__(self) -> str:
        return "UNSET"


UNSET = Unset()


@dataclass(frozen=True, slots=True)
class ObservedToolResult:
    """A tool's result.

    `value` is what the tool returned, parsed where it is JSON; `ok` is false when the tool failed."""

    tool: str
    value: Any
    ok: bool = True


@dataclass(frozen=True, slots=True)
class LifecycleEvent:
    """A moment of the life cycle, after its steps.

    `agent` is set for the two moments around a turn."""

    moment: str
    agent: str | None = None


@dataclass(frozen=True, slots=True)
class HandoffEvent:
    """A hand-off that was taken. `target` is an agent, `user` or `terminate`."""

    source: str
    target: str


@dataclass(frozen=True, slots=True)
class TurnObservation:
    """A finished turn.

    With an empty `agent`, a moment or a hand-off outside of a turn."""

    agent: str
    text: str
    tool_results: tuple[ObservedToolResult, ...] = ()
    tool_calls: tuple[str, ...] = ()  # called tools, whatever the result
    # Answers given for people, in order: by the tool that showed a surface, and by the function that asked.
    ui_answers: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    turns_by_agent: Mapping[str, int] = field(default_factory=dict)  # this turn included
    elapsed_s: float = 0.0  # the work of all turns of the run so far, including this one
    # The variables that tools wrote in the turn: the tool's value wins over the raw answer.
    written_names: Collection[str] = frozenset()
    moment: LifecycleEvent | None = None
    handoff: HandoffEvent | None = None


@dataclass(frozen=True, slots=True)
class TriggerMatch:
    """A fired trigger.

    `value` is the variable's new value unless the transition sets another; `groups` are the values of `$1`, `$2` …"""

    value: Any = True
    groups: tuple[str, ...] = ()


class StateTrigger(Protocol):
    """A trigger of a state variable.

    Package checks read some optional attributes: `groups` is the number of captured groups, `agent` and `tool` what it
    watches (None for any)."""

    @property
    def type(self) -> str: ...

    def fires(self, turn: TurnObservation) -> TriggerMatch | None:
        """Returns None when this turn does not fire it."""


@dataclass(frozen=True, slots=True)
class Transition:
    """A transition of a state variable.

    `to` unset is the trigger's own value, `"$1"` what its pattern captured. With `from_`, the variable must have this
    value. The places are those in the file, for findings."""

    trigger: StateTrigger
    to: Any = UNSET
    from_: Any = UNSET
    place: str = field(default="", compare=False)
    trigger_place: str = field(default="", compare=False)


_GROUP_REFERENCE = re.compile(r"\$([1-9][0-9]?)")


def captured_group(to: Any) -> int | None:
    """Returns the number in `"$1"`, or None for any other value."""
    found = _GROUP_REFERENCE.fullmatch(to) if isinstance(to, str) else None
    return int(found[1]) if found else None
