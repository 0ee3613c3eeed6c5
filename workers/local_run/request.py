"""What is asked for: one run of a package, in this process."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from pydantic import TypeAdapter, ValidationError

from workers.local_run.report import TurnReport
from workflows.package.trigger_specs.spec_problems import list_problems
from workflows.package.trigger_specs.ui_responses import Answers

LOCAL_APP = "local"
_ANSWERS: TypeAdapter[Any] = TypeAdapter(Answers)


class WrongUseError(ValueError):
    """What was asked for makes no sense; the text names the argument and says what to give instead."""


class NotStartedError(Exception):
    """A package is here, but no run of it is started; the text says why."""


@dataclass(frozen=True, slots=True)
class Request:
    """`script` stands in for every model: a file, or what such a file says. `context` presets variables."""

    input: Mapping[str, Any] = field(default_factory=dict)
    context: Mapping[str, Any] = field(default_factory=dict)
    ui_responses: Mapping[str, Any] = field(default_factory=dict)
    script: Path | Mapping[str, Any] | None = None
    message: str | None = None
    app_id: str = LOCAL_APP
    chat_id: str | None = None  # given, a RandomPattern chooses the same speakers again

    def __post_init__(self) -> None:
        for tool, answers in self.ui_responses.items():
            if not isinstance(answers, Mapping):
                _check_list(tool, answers)


def _check_list(tool: str, answers: Any) -> None:
    """As a trigger's answers with conditions are checked."""
    if not isinstance(answers, list):
        message = 'write keys and values, such as {"approved": true}, or a list of {"when": "…", "answer": {…}}'
        raise WrongUseError(f"ui_responses: {tool}: {message}")
    try:
        _ANSWERS.validate_python(answers)
    except ValidationError as error:
        problem = list_problems(error)[0]
        raise WrongUseError(f"ui_responses: {tool}{problem.place}: {problem.message}") from None


class Watch(Protocol):
    """Who looks on while the run goes on."""

    def speaking(self, agent: str) -> None:
        """Whose turn begins."""

    def turn(self, number: int, turn: TurnReport) -> None:
        """A turn that was committed."""

    def note(self, text: str) -> None:
        """Where this run is not what a worker would do, or waits."""


def _unheard(text: str) -> None:
    del text


@dataclass(frozen=True, slots=True)
class NoteWatch:
    """Notes may be wanted all the same."""

    note: Callable[[str], None] = _unheard

    def speaking(self, agent: str) -> None:
        del agent

    def turn(self, number: int, turn: TurnReport) -> None:
        del number, turn
