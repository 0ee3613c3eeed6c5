"""People: what a package's code asks of a person, and whose answer it gets.

No person is in the chat. Either the answer to this very question is there, by a standing answer of the trigger
(`ui_responses`) or by a person since then, or the run rests as needs_human. That is noted beside what is raised, so
that code which swallows everything ends the run all the same.
"""

import asyncio
import copy
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field
from typing import Any

from workflows.chat.errors import NeedsHuman, PackageDefect, UnstableQuestion
from workflows.chat.incidents import Incident
from workflows.chat.live import Conversation, LiveTurn, live_turn
from workflows.chat.question import (
    MAX_CHOICES,
    MAX_NAME,
    Question,
    Shown,
    awaited_keys,
    cut,
    is_choice,
    keys_with_choice,
)
from workflows.chat.question import question_id as bound_id
from workflows.chat.working_directory import Visit
from workflows.context.standing_answers import standing_answer

log = logging.getLogger(__name__)

MAX_SHOWN = 100  # of the name that the package's code asks with
MAX_QUESTIONS = 20  # of one turn
MAX_VERSIONS = 2  # of one question: a call that words it differently each time would be asked about for ever


class UIToolError(Exception):
    """What tools catch around `use_ui_tool`: there is no run that could ask anybody, or what is asked is malformed."""


class PersonNeeded(BaseException):
    """Leaves the function that asked."""


@dataclass(slots=True)
class Call:
    """One call of a package's function. `position`: where it stands in its turn. `arguments`: as the model sent them.
    `for_people`: of a user interface, which makes no sense unless a person answers. `chat`: where there is no turn.
    `over`: it has returned, or was given up; what it has begun may go on. `waits` is why the chat must not go on,
    `answers` what this call was answered, `used` the ids of those questions."""

    function: str = ""
    position: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    for_people: bool = False
    chat: Conversation | None = None
    asked: bool = False
    over: bool = False
    waits: Exception | None = None
    answers: list[tuple[tuple[str, ...], Mapping[str, Any]]] = field(default_factory=list)
    used: set[str] = field(default_factory=set)
    incidents: tuple[Incident, ...] = ()  # beside what it raised
    _counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    _unrecorded: list[Mapping[str, Any]] = field(default_factory=list)
    _loop: asyncio.AbstractEventLoop | None = None

    def ask(
        self, tool_id: str, payload: Any = None, *, title: str | None = None, choices: Sequence[str] = ()
    ) -> dict[str, Any]:
        """The answer to this question. PersonNeeded when there is none yet."""
        if self.over:  # it is recorded, and not made again: an answer would reach nothing
            message = f"{self.function or 'a step of the package'} is over, and what it left running asks a person"
            raise self._stop(PackageDefect(f"{message}; await it before you return"), _turn())
        self.asked = True
        chat, live = self._chat(), _turn()
        if chat is None:
            raise self._stop(NeedsHuman(self._words(tool_id)), live)
        shown = Shown.of(self.arguments, payload, title=title, choices=choices, show=chat.redactor.data)
        question = self._question(chat, live, chat.redactor.text(tool_id), shown)
        response = self._response(chat, question, tool_id, payload)
        if response is None:
            raise self._in_vain(chat, live, question)
        self.used.add(question.id)
        names = tuple(dict.fromkeys(name for name in (tool_id, self.function) if name))
        self.answers.append((names, response))
        return copy.deepcopy(dict(response))

    def returned(self, result: Any) -> None:
        """A function for people that asked nothing has shown its result, and no person has seen it."""
        if self.for_people and not self.asked:
            try:
                self.ask(self.function, result)
            except PersonNeeded:
                return

    def note_moved(self, visit: Visit, *, where: str) -> None:
        """In the turn, else in the run: what this call did to the working directory."""
        live = _turn()
        if live is not None:
            incident = visit.incident(where=where, agent=live.agent, turn=live.number)
            if incident is not None:
                live.note(incident)
                self.incidents += (incident.kept(live.chat.redactor.text),)
        elif self.chat is not None and (incident := visit.incident(where=where)) is not None:
            self.chat.note(incident)

    async def record_standing(self) -> PersonNeeded | None:
        """Keeps each use of a standing answer, before what it allows is done; what is to be raised when that fails.
        Works from any event loop."""
        chat, entries = self._chat(), self._unrecorded
        self._unrecorded = []
        if chat is None:
            return None
        try:
            for entry in entries:
                await self._on_own_loop(chat, entry)
        except Exception as error:  # noqa: BLE001 -- whatever the store raises ends the chat, through `waits`
            return self._stop(error, _turn())
        return None

    async def _on_own_loop(self, chat: Conversation, entry: Mapping[str, Any]) -> None:
        recording = chat.record_answer(entry)
        if self._loop is None or self._loop is asyncio.get_running_loop():
            await recording
        else:  # a plain function runs in a thread, and may have a loop of its own there
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(recording, self._loop))

    def _response(self, chat: Conversation, question: Question, tool_id: str, payload: Any) -> Mapping[str, Any] | None:
        given = chat.answers.get(question.id)
        names = [name for name in (tool_id, question.tool, self.function) if name]
        if given is not None:
            responses = given.get("responses") or {}
            return next((responses[name] for name in names if name in responses), None)
        standing = standing_answer(
            chat.ui_responses, names, arguments=self.arguments, payload=payload, context=chat.context
        )
        if standing is not None and not is_choice(question, standing, chat.redactor.text):
            fields = {"run_id": chat.fixed.get("run_id"), "tool": question.tool, "key": question.keys[0]}
            log.warning("standing_answer_not_a_choice", extra=fields)
            return None
        if standing is not None:
            self._unrecorded.append(
                {
                    "by": chat.standing_by,
                    "standing": True,
                    "turn": len(chat.turns),
                    "responses": {str(question.tool): standing},
                    "question": question.as_document(),
                }
            )
        return standing

    def _in_vain(self, chat: Conversation, live: LiveTurn | None, question: Question) -> PersonNeeded:
        asked_before = [
            each["question"]
            for each in chat.answers.values()
            if (each["question"].get("position"), each["question"].get("turn")) == (self.position, question.turn)
        ]
        worded = [
            each
            for each in asked_before
            if each.get("tool") == question.tool
            and each["digests"]["arguments"] == question.digests["arguments"]
            and each["id"] not in self.used
        ]
        if len(worded) >= MAX_VERSIONS:
            message = (
                f"{self.function or 'a step of the package'} asks with {question.tool} for the third time, with equal"
                " arguments and another payload each time; leave times and random values out of the payload"
            )
            return self._stop(UnstableQuestion(message), live)
        questions = chat.questions if live is None else live.questions
        if len(questions) < MAX_QUESTIONS and all(each.id != question.id for each in questions):
            questions.append(question)
        return self._stop(NeedsHuman(self._words(str(question.tool))), live)

    def _stop(self, error: Exception, live: LiveTurn | None) -> PersonNeeded:
        self.waits = self.waits or error
        if live is not None:
            live.stop = live.stop or error
        return PersonNeeded(str(error))

    def _words(self, tool: str) -> str:
        asks = f"{self.function} waits for a person" if self.function else "a step of the package waits for a person"
        shown = f" ({tool[:MAX_SHOWN]})" if tool != self.function else ""
        return f"{asks}{shown}: its trigger has no ui_responses for this call"

    def _question(self, chat: Conversation, live: LiveTurn | None, tool: str, shown: Shown) -> Question:
        turn = 0 if live is None else live.number
        self._counts[tool, shown.digests["payload"]] += 1
        nth = self._counts[tool, shown.digests["payload"]]
        keys = awaited_keys(chat.package, tool, self.function)
        run_id, digests = chat.fixed.get("run_id", ""), shown.digests
        call = (run_id, turn, self.position, self.function, digests["arguments"])
        return Question(
            "tool",
            agent=None if live is None else live.agent,
            turn=turn,
            text=f"{self.function or 'a step of the package'} waits for a person",
            id=bound_id(*call, tool, digests["payload"], nth),
            tool=cut(tool, MAX_NAME),
            function=self.function or None,
            arguments=shown.arguments,
            payload=shown.payload,
            title=shown.title,
            choices=shown.choices,
            keys=keys_with_choice(keys) if shown.choices else keys,
            position=self.position,
            digests=digests,
        )

    def _chat(self) -> Conversation | None:
        live = _turn()
        return self.chat if live is None else live.chat


def read_choices(choices: Any) -> tuple[str, ...]:
    """UIToolError when they are no list of texts."""
    if choices is None:
        return ()
    if isinstance(choices, str) or not isinstance(choices, Sequence) or not all(isinstance(c, str) for c in choices):
        raise UIToolError("choices: give a list of texts, such as ['yes', 'no']")
    if len(set(choices)) != len(choices) or not 0 < len(choices) <= MAX_CHOICES or not all(map(_is_choice, choices)):
        raise UIToolError(
            f"choices: give 1 to {MAX_CHOICES} different texts, each one line of 1 to {MAX_NAME} characters"
        )
    return tuple(choices)


def _is_choice(text: str) -> bool:
    """A form rewrites line ends and the store lone surrogates, so those would come back as none of the choices."""
    return bool(text.strip()) and text == cut(text, MAX_NAME) and text.splitlines() == [text]


_call: ContextVar[Call] = ContextVar("unattended_call")


def current_call(function: str = "use_ui_tool") -> Call:
    """The call that the package's function runs in; `function` asks for it. UIToolError outside of a run."""
    try:
        return _call.get()
    except LookupError:
        raise UIToolError(f"{function} works in a run only: there is no chat here that could ask anybody") from None


def calling(call: Call) -> Context:
    """What the function runs in: a copy, which nobody has to put back."""
    call._loop = asyncio.get_running_loop()
    context = copy_context()
    context.run(_call.set, call)
    return context


def _turn() -> LiveTurn | None:
    try:
        return live_turn()
    except LookupError:  # before the first turn, or after the last one
        return None
