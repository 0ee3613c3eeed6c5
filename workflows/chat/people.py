"""People: what a package's code asks of somebody at a user interface.

Nobody is there. Either there is an answer already, by the trigger (`ui_responses`) or by a person since then, or the
run rests as needs_human. That is noted beside what is raised, so that code which swallows everything ends the run all
the same.
"""

import copy
from collections.abc import Mapping
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass
from typing import Any

from workflows.chat.errors import NeedsHuman
from workflows.chat.live import Conversation, LiveTurn, live_turn
from workflows.chat.question import MAX_NAME, Question, awaited_keys, cut, shown_payload
from workflows.chat.working_directory import Visit

MAX_SHOWN = 100  # of the name that the package's code asks with


class UIToolError(Exception):
    """What tools catch around `use_ui_tool`: there is no run that could ask anybody."""


class PersonNeeded(BaseException):
    """Leaves the function that asked."""


@dataclass(slots=True)
class Call:
    """One call of a package's function: who is called, whether it has asked, and what it waits for in vain.
    `for_people`: of a user interface, which makes no sense unless somebody answers. `chat`: where there is no turn."""

    function: str = ""
    for_people: bool = False
    asked: bool = False
    waits: NeedsHuman | None = None
    chat: Conversation | None = None

    def ask(self, tool_id: str, payload: Any = None) -> dict[str, Any]:
        """What is answered for this tool, or for the function that asks."""
        self.asked = True
        live = _turn()
        answer = self._answer(live, tool_id, self.function)
        if answer is None:
            raise self._needed(live, tool_id, payload)
        if live is not None:
            live.ui_answers.extend((name, answer) for name in dict.fromkeys((tool_id, self.function)) if name)
        return copy.deepcopy(dict(answer))

    def returned(self, result: Any) -> None:
        """One for people that asked nobody has shown something, and nobody has seen it."""
        live = _turn()
        if self.for_people and not self.asked and self._answer(live, self.function) is None:
            self._needed(live, self.function, result)

    def note_moved(self, visit: Visit, *, where: str) -> None:
        """In the turn, else in the run: what this call did to the working directory."""
        live = _turn()
        if live is not None:
            incident = visit.incident(where=where, agent=live.agent, turn=live.number)
            if incident is not None:
                live.note(incident)
        elif self.chat is not None and (incident := visit.incident(where=where)) is not None:
            self.chat.note(incident)

    def _answer(self, live: LiveTurn | None, *names: str) -> Mapping[str, Any] | None:
        chat = self.chat if live is None else live.chat
        responses = {} if chat is None else chat.ui_responses
        return next((responses[name] for name in names if name in responses), None)

    def _needed(self, live: LiveTurn | None, tool_id: str, payload: Any) -> PersonNeeded:
        chat = self.chat if live is None else live.chat
        asks = f"{self.function} waits for a person" if self.function else "a step of the package waits for a person"
        told = tool_id if chat is None else chat.redactor.text(tool_id)
        shown = f" ({told[:MAX_SHOWN]})" if tool_id != self.function else ""
        words = f"{asks}{shown}: nobody is in the chat, and the trigger gives no ui_responses for it"
        question = None if chat is None else self._question(chat, live, told, payload)
        self.waits = NeedsHuman(words, question)
        if live is not None:
            _note(live, self.waits)
        return PersonNeeded(words)

    def _question(self, chat: Conversation, live: LiveTurn | None, told: str, payload: Any) -> Question:
        asks = self.function or "a step of the package"
        return Question(
            "tool",
            agent=None if live is None else live.agent,
            turn=0 if live is None else live.number,
            text=f"{asks} waits for a person",
            tool=cut(told, MAX_NAME),
            function=self.function or None,
            payload=shown_payload(payload, chat.redactor.data),
            keys=awaited_keys(chat.package, told, self.function),
        )


def _note(live: LiveTurn, needed: NeedsHuman) -> None:
    """The first question ends the turn; the others are named in it, since they may be answered together."""
    if live.stop is None:
        live.stop = needed
    elif isinstance(live.stop, NeedsHuman) and live.stop.question and needed.question and needed.question.tool:
        live.stop.question = live.stop.question.with_also(needed.question.tool)


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
