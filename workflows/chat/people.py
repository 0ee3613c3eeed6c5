"""People: what a package's code asks of somebody at a user interface.

Nobody is there. Either the trigger has answered in advance (`ui_responses`) or the run ends as needs_human. That is
noted beside what is raised, so that code which swallows everything ends the run all the same.
"""

import copy
from collections.abc import Mapping
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass
from typing import Any

from workflows.chat.errors import NeedsHuman
from workflows.chat.live import LiveTurn, live_turn

MAX_SHOWN = 100  # of the name that the package's code asks with


class UIToolError(Exception):
    """What tools catch around `use_ui_tool`: there is no run that could ask anybody."""


class PersonNeeded(BaseException):
    """Leaves the function that asked."""


@dataclass(slots=True)
class Call:
    """One call of a package's function: who is called, whether it has asked, and what it waits for in vain.
    `for_people`: of a user interface, which makes no sense unless somebody answers."""

    function: str = ""
    for_people: bool = False
    asked: bool = False
    waits: NeedsHuman | None = None

    def ask(self, tool_id: str) -> dict[str, Any]:
        """What the trigger answers for this tool, or for the function that asks."""
        self.asked = True
        live = _turn()
        answer = _answer(live, tool_id, self.function)
        if answer is None:
            raise self._needed(live, tool_id)
        if live is not None:
            live.ui_answers.extend((name, answer) for name in dict.fromkeys((tool_id, self.function)) if name)
        return copy.deepcopy(dict(answer))

    def returned(self) -> None:
        """One for people that asked nobody has shown something, and nobody has seen it."""
        live = _turn()
        if self.for_people and not self.asked and _answer(live, self.function) is None:
            self._needed(live, self.function)

    def _needed(self, live: LiveTurn | None, tool_id: str) -> PersonNeeded:
        asks = f"{self.function} waits for a person" if self.function else "a step of the package waits for a person"
        told = tool_id if live is None else live.chat.redactor.text(tool_id)
        shown = f" ({told[:MAX_SHOWN]})" if tool_id != self.function else ""
        self.waits = NeedsHuman(f"{asks}{shown}: nobody is in the chat, and the trigger gives no ui_responses for it")
        if live is not None and live.stop is None:
            live.stop = self.waits
        return PersonNeeded(str(self.waits))


_call: ContextVar[Call] = ContextVar("unattended_call")


def current_call() -> Call:
    """UIToolError outside of a run."""
    try:
        return _call.get()
    except LookupError:
        raise UIToolError("use_ui_tool works in a run only: there is no chat here that could ask anybody") from None


def calling(call: Call) -> Context:
    """What the function runs in: a copy, which nobody has to put back."""
    context = copy_context()
    context.run(_call.set, call)
    return context


def _turn() -> LiveTurn | None:
    try:
        return live_turn()
    except LookupError:  # before the first turn, or after the last one
        return None


def _answer(live: LiveTurn | None, *names: str) -> Mapping[str, Any] | None:
    responses = {} if live is None else live.chat.ui_responses
    return next((responses[name] for name in names if name in responses), None)
