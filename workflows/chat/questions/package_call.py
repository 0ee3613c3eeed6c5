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

from workflows.chat.chat_errors import NeedsHuman, PackageDefect, UnstableQuestion
from workflows.chat.chat_state import Conversation, LiveTurn, live_turn
from workflows.chat.package_code.incidents import Incident
from workflows.chat.package_code.working_directory import DirectoryVisit
from workflows.chat.questions.question import (
    MAX_CHOICES,
    MAX_NAME_CHARACTERS,
    Question,
    QuestionContent,
    find_awaited_keys,
    keys_with_choice,
    matches_choices,
    shorten,
)
from workflows.chat.questions.question import make_question_id as bound_id
from workflows.context.state.standing_answers import find_standing_answer

log = logging.getLogger(__name__)

MAX_SHOWN_NAME = 100  # of the name that the package's code asks with
MAX_QUESTIONS = 20  # of one turn
MAX_WORDINGS = 2  # of one question: a call that words it differently each time would be asked about for ever


class UIToolError(Exception):
    """What tools catch around `use_ui_tool`: there is no run that could ask anybody, or what is asked is malformed."""


class PersonNeeded(BaseException):
    """Leaves the function that asked."""


@dataclass(slots=True)
class PackageCall:
    """One call of a package's function. `position`: where it stands in its turn. `arguments`: as the model sent them.
    `for_people`: of a user interface, which makes no sense unless a person answers. `chat`: where there is no turn.
    `over`: it has returned, or was given up; what it has begun may go on. `waits` is why the chat must not go on,
    `answers` what this call was answered, `used` the ids of those questions."""

    function: str = ""
    position: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    needs_answer: bool = False
    chat: Conversation | None = None
    has_asked: bool = False
    is_over: bool = False
    stop_error: Exception | None = None
    answers: list[tuple[tuple[str, ...], Mapping[str, Any]]] = field(default_factory=list)
    used_question_ids: set[str] = field(default_factory=set)
    incidents: tuple[Incident, ...] = ()  # beside what it raised
    _question_counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    _unrecorded_answers: list[Mapping[str, Any]] = field(default_factory=list)
    _loop: asyncio.AbstractEventLoop | None = None

    def ask(
        self, tool_id: str, payload: Any = None, *, title: str | None = None, choices: Sequence[str] = ()
    ) -> dict[str, Any]:
        """The answer to this question. PersonNeeded when there is none yet."""
        if self.is_over:  # it is recorded, and not made again: an answer would reach nothing
            message = f"{self.function or 'a step of the package'} is over, and what it left running asks a person"
            raise self._stop(PackageDefect(f"{message}; await it before you return"), _turn_or_none())
        self.has_asked = True
        chat, live = self._current_chat(), _turn_or_none()
        if chat is None:
            raise self._stop(NeedsHuman(self._describe_wait(tool_id)), live)
        shown = QuestionContent.redacted(
            self.arguments, payload, title=title, choices=choices, redact=chat.redactor.redact_data
        )
        question = self._build_question(chat, live, chat.redactor.redact_text(tool_id), shown)
        response = self._find_response(chat, question, tool_id, payload)
        if response is None:
            raise self._add_question(chat, live, question)
        self.used_question_ids.add(question.id)
        names = tuple(dict.fromkeys(name for name in (tool_id, self.function) if name))
        self.answers.append((names, response))
        return copy.deepcopy(dict(response))

    def ask_with_result(self, result: Any) -> None:
        """A function for people that asked nothing has shown its result, and no person has seen it."""
        if self.needs_answer and not self.has_asked:
            try:
                self.ask(self.function, result)
            except PersonNeeded:
                return

    def note_directory_change(self, visit: DirectoryVisit, *, where: str) -> None:
        """In the turn, else in the run: what this call did to the working directory."""
        live = _turn_or_none()
        if live is not None:
            incident = visit.incident(where=where, agent=live.agent, turn=live.number)
            if incident is not None:
                live.note_incident(incident)
                self.incidents += (incident.redacted(live.chat.redactor.redact_text),)
        elif self.chat is not None and (incident := visit.incident(where=where)) is not None:
            self.chat.note_incident(incident)

    async def record_standing_answers(self) -> PersonNeeded | None:
        """Keeps each use of a standing answer, before what it allows is done; what is to be raised when that fails.
        Works from any event loop."""
        chat, entries = self._current_chat(), self._unrecorded_answers
        self._unrecorded_answers = []
        if chat is None:
            return None
        try:
            for entry in entries:
                await self._record_on_own_loop(chat, entry)
        except Exception as error:  # noqa: BLE001 -- whatever the store raises ends the chat, through `waits`
            return self._stop(error, _turn_or_none())
        return None

    async def _record_on_own_loop(self, chat: Conversation, entry: Mapping[str, Any]) -> None:
        recording = chat.record_answer(entry)
        if self._loop is None or self._loop is asyncio.get_running_loop():
            await recording
        else:  # a plain function runs in a thread, and may have a loop of its own there
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(recording, self._loop))

    def _find_response(
        self, chat: Conversation, question: Question, tool_id: str, payload: Any
    ) -> Mapping[str, Any] | None:
        given = chat.tool_answers.get(question.id)
        names = [name for name in (tool_id, question.tool, self.function) if name]
        if given is not None:
            responses = given.get("responses") or {}
            return next((responses[name] for name in names if name in responses), None)
        standing = find_standing_answer(
            chat.ui_responses, names, arguments=self.arguments, payload=payload, context=chat.context
        )
        if standing is not None and not matches_choices(question, standing, chat.redactor.redact_text):
            fields = {"run_id": chat.fixed_values.get("run_id"), "tool": question.tool, "key": question.keys[0]}
            log.warning("standing_answer_not_a_choice", extra=fields)
            return None
        if standing is not None:
            self._unrecorded_answers.append(
                {
                    "by": chat.standing_answer_source,
                    "standing": True,
                    "turn": len(chat.turns),
                    "responses": {str(question.tool): standing},
                    "question": question.as_document(),
                }
            )
        return standing

    def _add_question(self, chat: Conversation, live: LiveTurn | None, question: Question) -> PersonNeeded:
        asked_before = [
            each["question"]
            for each in chat.tool_answers.values()
            if (each["question"].get("position"), each["question"].get("turn")) == (self.position, question.turn)
        ]
        worded = [
            each
            for each in asked_before
            if each.get("tool") == question.tool
            and each["digests"]["arguments"] == question.digests["arguments"]
            and each["id"] not in self.used_question_ids
        ]
        if len(worded) >= MAX_WORDINGS:
            message = (
                f"{self.function or 'a step of the package'} asks with {question.tool} for the third time, with equal"
                " arguments and another payload each time; leave times and random values out of the payload"
            )
            return self._stop(UnstableQuestion(message), live)
        questions = chat.questions if live is None else live.questions
        if len(questions) < MAX_QUESTIONS and all(each.id != question.id for each in questions):
            questions.append(question)
        return self._stop(NeedsHuman(self._describe_wait(str(question.tool))), live)

    def _stop(self, error: Exception, live: LiveTurn | None) -> PersonNeeded:
        self.stop_error = self.stop_error or error
        if live is not None:
            live.stop_error = live.stop_error or error
        return PersonNeeded(str(error))

    def _describe_wait(self, tool: str) -> str:
        asks = f"{self.function} waits for a person" if self.function else "a step of the package waits for a person"
        shown = f" ({tool[:MAX_SHOWN_NAME]})" if tool != self.function else ""
        return f"{asks}{shown}: its trigger has no ui_responses for this call"

    def _build_question(
        self, chat: Conversation, live: LiveTurn | None, tool: str, content: QuestionContent
    ) -> Question:
        turn = 0 if live is None else live.number
        self._question_counts[tool, content.digests["payload"]] += 1
        nth = self._question_counts[tool, content.digests["payload"]]
        keys = find_awaited_keys(chat.package, tool, self.function)
        run_id, digests = chat.fixed_values.get("run_id", ""), content.digests
        call = (run_id, turn, self.position, self.function, digests["arguments"])
        return Question(
            "tool",
            agent=None if live is None else live.agent,
            turn=turn,
            text=f"{self.function or 'a step of the package'} waits for a person",
            id=bound_id(*call, tool, digests["payload"], nth),
            tool=shorten(tool, MAX_NAME_CHARACTERS),
            function=self.function or None,
            arguments=content.arguments,
            payload=content.payload,
            title=content.title,
            choices=content.choices,
            keys=keys_with_choice(keys) if content.choices else keys,
            position=self.position,
            digests=digests,
        )

    def _current_chat(self) -> Conversation | None:
        live = _turn_or_none()
        return self.chat if live is None else live.chat


def check_choices(choices: Any) -> tuple[str, ...]:
    """UIToolError when they are no list of texts."""
    if choices is None:
        return ()
    if isinstance(choices, str) or not isinstance(choices, Sequence) or not all(isinstance(c, str) for c in choices):
        raise UIToolError("choices: give a list of texts, such as ['yes', 'no']")
    if (
        len(set(choices)) != len(choices)
        or not 0 < len(choices) <= MAX_CHOICES
        or not all(map(_is_valid_choice, choices))
    ):
        raise UIToolError(
            f"choices: give 1 to {MAX_CHOICES} different texts, each one line of 1 to {MAX_NAME_CHARACTERS} characters"
        )
    return tuple(choices)


def _is_valid_choice(text: str) -> bool:
    """A form rewrites line ends and the store lone surrogates, so those would come back as none of the choices."""
    return bool(text.strip()) and text == shorten(text, MAX_NAME_CHARACTERS) and text.splitlines() == [text]


_current_call: ContextVar[PackageCall] = ContextVar("unattended_call")


def current_call(function: str = "use_ui_tool") -> PackageCall:
    """The call that the package's function runs in; `function` asks for it. UIToolError outside of a run."""
    try:
        return _current_call.get()
    except LookupError:
        raise UIToolError(f"{function} works in a run only: there is no chat here that could ask anybody") from None


def context_for_call(call: PackageCall) -> Context:
    """What the function runs in: a copy, which nobody has to put back."""
    call._loop = asyncio.get_running_loop()
    context = copy_context()
    context.run(_current_call.set, call)
    return context


def _turn_or_none() -> LiveTurn | None:
    try:
        return live_turn()
    except LookupError:  # before the first turn, or after the last one
        return None
