"""What a turn showed, and the transitions of state variables that watch for it.

A trigger is deterministic: it sees one finished turn, or one event between turns, and nothing else, so that a run that
is resumed derives the same state. A new type of trigger is one module in `workflows/context/observers/`.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol


class Unset:
    """Told apart from null, which is a value like any other."""

    def __repr__(self) -> str:
        return "UNSET"


UNSET = Unset()


@dataclass(frozen=True, slots=True)
class ObservedToolResult:
    """`value` is what the tool returned, as JSON where it is JSON; `ok` is false when the tool failed."""

    tool: str
    value: Any
    ok: bool = True


@dataclass(frozen=True, slots=True)
class LifecycleEvent:
    """A moment of the life cycle whose steps are over. `agent`: whose turn it is, for the two around a turn."""

    moment: str
    agent: str | None = None


@dataclass(frozen=True, slots=True)
class HandoffEvent:
    """A hand-off that was taken. `target` is an agent, `user` or `terminate`."""

    source: str
    target: str


@dataclass(frozen=True, slots=True)
class TurnObservation:
    """A finished turn; or, where `agent` is empty, a moment or a hand-off that is seen by itself."""

    agent: str
    text: str
    tool_results: tuple[ObservedToolResult, ...] = ()
    tool_calls: tuple[str, ...] = ()  # the tools that were called, whatever came of it
    # What the trigger answered for people, in order: by the tool that showed it, and by the function that asked.
    ui_answers: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    turns_by_agent: Mapping[str, int] = field(default_factory=dict)  # this turn included
    elapsed_s: float = 0.0  # the work of all turns of the run so far, this one included
    # The variables that tools wrote in the turn: a tool decides what an answer becomes, not the raw answer.
    written_names: Collection[str] = frozenset()
    moment: LifecycleEvent | None = None
    handoff: HandoffEvent | None = None


@dataclass(frozen=True, slots=True)
class TriggerMatch:
    """`value` is what the variable becomes unless the transition says otherwise; `groups` are what `$1` stands for."""

    value: Any = True
    groups: tuple[str, ...] = ()


class StateTrigger(Protocol):
    """One that captures groups says how many as `groups`; one that watches an agent or a tool, whom, as `agent`
    or `tool`: so the checks of a package know without knowing the type. None there means any."""

    @property
    def type(self) -> str: ...

    def fires(self, turn: TurnObservation) -> TriggerMatch | None:
        """None when this turn is not what it waits for."""


@dataclass(frozen=True, slots=True)
class Transition:
    """`to` unset: the trigger's own value; `"$1"`: what its pattern captured. `from_` set: only while the variable
    has this value. The places are where it and its trigger stand in their file, for findings."""

    trigger: StateTrigger
    to: Any = UNSET
    from_: Any = UNSET
    place: str = field(default="", compare=False)
    trigger_place: str = field(default="", compare=False)


_GROUP_REFERENCE = re.compile(r"\$([1-9][0-9]?)")


def captured_group(to: Any) -> int | None:
    """The number in `"$1"`, or None when `to` is a value like any other."""
    found = _GROUP_REFERENCE.fullmatch(to) if isinstance(to, str) else None
    return int(found[1]) if found else None
