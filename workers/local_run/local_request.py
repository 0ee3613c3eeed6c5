"""The request for one run of a package in this process."""

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
    """An argument is invalid; the text names it and the valid values."""


class NotStartedError(Exception):
    """The package exists, but its run was not started; the text gives the reason."""


@dataclass(frozen=True, slots=True)
class Request:
    """The request for a local run.

    `script` replaces all models: a file with answers, or its content. `context` presets variables.
    """

    input: Mapping[str, Any] = field(default_factory=dict)
    context: Mapping[str, Any] = field(default_factory=dict)
    ui_responses: Mapping[str, Any] = field(default_factory=dict)
    script: Path | Mapping[str, Any] | None = None
    message: str | None = None
    app_id: str = LOCAL_APP
    chat_id: str | None = None  # with a seed, a RandomPattern chooses the same speakers again

    def __post_init__(self) -> None:
        for tool, answers in self.ui_responses.items():
            if not isinstance(answers, Mapping):
                _check_list(tool, answers)


def _check_list(tool: str, answers: Any) -> None:
    """Checks the answers like those of a trigger with conditions."""
    if not isinstance(answers, list):
        message = 'write keys and values, such as {"approved": true}, or a list of {"when": "…", "answer": {…}}'
        raise WrongUseError(f"ui_responses: {tool}: {message}")
    try:
        _ANSWERS.validate_python(answers)
    except ValidationError as error:
        problem = list_problems(error)[0]
        raise WrongUseError(f"ui_responses: {tool}{problem.place}: {problem.message}") from None


class Watch(Protocol):
    """Observes the progress of the run."""

    def speaking(self, agent: str) -> None:
        """Called when the turn of an agent begins."""

    def turn(self, number: int, turn: TurnReport) -> None:
        """Called with each committed turn."""

    def note(self, text: str) -> None:
        """Called when the run waits, or differs from a run on a worker."""


def _ignore_note(text: str) -> None:
    del text


@dataclass(frozen=True, slots=True)
class NoteWatch:
    """Ignores everything but notes."""

    note: Callable[[str], None] = _ignore_note

    def speaking(self, agent: str) -> None:
        del agent

    def turn(self, number: int, turn: TurnReport) -> None:
        del number, turn
