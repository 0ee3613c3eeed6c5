"""A call of package code: its questions to a person, and the answers it gets.

No person is in the chat. Either the answer to this very question exists, from a standing answer of the trigger
(`ui_responses`) or from a person since then, or the run rests as needs_human. That is noted beside the raised
exception, so code that swallows everything ends the run all the same.
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
    make_question_id,
    matches_choices,
    shorten_storable,
)
from workflows.context.state.standing_answers import find_standing_answer

log = logging.getLogger(__name__)

MAX_SHOWN_NAME = 100  # of the name that package code asks with
MAX_QUESTIONS = 20  # of one turn
MAX_WORDINGS = 2  # of one question: a call with a new wording each time would ask for ever


class UIToolError(Exception):
    """Raised outside of a run or for a malformed question; tools catch it."""


class PersonNeeded(BaseException):
    """Leaves the function that asked."""


@dataclass(slots=True)
class PackageCall:
    """One call of a package's function.

    `position` is its place in its turn, `arguments` are those the model sent. `needs_answer`: the function is a user
    interface, useless without a person's answer. `chat` is set where there is no turn. `is_over`: it has returned or
    was given up; what it has begun may continue. `stop_error` is why the chat must end. `answers` are those given to
    this call, `used_question_ids` their questions."""

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
        """Returns the answer to this question. PersonNeeded when there is none yet."""
        if self.is_over:  # the call is recorded and never repeated: an answer would reach nothing
            message = (
                f"{self.function or 'a step of the package'} has ended, and code that it left running asks a person"
            )
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
        """Asks a person about the result of a function that needs an answer and asked none itself."""
        if self.needs_answer and not self.has_asked:
            try:
                self.ask(self.function, result)
            except PersonNeeded:
                return

    def note_directory_change(self, visit: DirectoryVisit, *, where: str) -> None:
        """Notes a change of the working directory, in the turn or else in the run."""
        live = _turn_or_none()
        if live is not None:
            incident = visit.incident(where=where, agent=live.agent, turn=live.number)
            if incident is not None:
                live.note_incident(incident)
                self.incidents += (incident.redacted(live.chat.redactor.redact_text),)
        elif self.chat is not None and (incident := visit.incident(where=where)) is not None:
            self.chat.note_incident(incident)

    async def record_standing_answers(self) -> PersonNeeded | None:
        """Records each use of a standing answer, before the allowed action is done.

        Returns the exception to raise when that fails. Works from any event loop."""
        chat, entries = self._current_chat(), self._unrecorded_answers
        self._unrecorded_answers = []
        if chat is None:
            return None
        try:
            for entry in entries:
                await self._record_on_own_loop(chat, entry)
        except Exception as error:  # noqa: BLE001 -- any error of the store ends the chat, through `stop_error`
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
        answer = chat.tool_answers.get(question.id)
        names = [name for name in (tool_id, question.tool, self.function) if name]
        if answer is not None:
            responses = answer.get("responses") or {}
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
            answer["question"]
            for answer in chat.tool_answers.values()
            if (answer["question"].get("position"), answer["question"].get("turn")) == (self.position, question.turn)
        ]
        earlier_wordings = [
            question_asked
            for question_asked in asked_before
            if question_asked.get("tool") == question.tool
            and question_asked["digests"]["arguments"] == question.digests["arguments"]
            and question_asked["id"] not in self.used_question_ids
        ]
        if len(earlier_wordings) >= MAX_WORDINGS:
            message = (
                f"{self.function or 'a step of the package'} asks with {question.tool} for the third time, with equal"
                " arguments and another payload each time; leave times and random values out of the payload"
            )
            return self._stop(UnstableQuestion(message), live)
        questions = chat.questions if live is None else live.questions
        if len(questions) < MAX_QUESTIONS and all(earlier.id != question.id for earlier in questions):
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
            id=make_question_id(*call, tool, digests["payload"], nth),
            tool=shorten_storable(tool, MAX_NAME_CHARACTERS),
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
    """Checks that choices are a list of different short texts, else UIToolError."""
    if choices is None:
        return ()
    if (
        isinstance(choices, str)
        or not isinstance(choices, Sequence)
        or not all(isinstance(choice, str) for choice in choices)
    ):
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
    """Checks that a choice survives a form and the store.

    A form rewrites line ends and the store lone surrogates, so such a choice would come back as another text."""
    return bool(text.strip()) and text == shorten_storable(text, MAX_NAME_CHARACTERS) and text.splitlines() == [text]


_current_call: ContextVar[PackageCall] = ContextVar("unattended_call")


def current_call(function: str = "use_ui_tool") -> PackageCall:
    """Returns the current call, for `function`. UIToolError outside of a run."""
    try:
        return _current_call.get()
    except LookupError:
        raise UIToolError(f"{function} works in a run only: there is no chat here") from None


def context_for_call(call: PackageCall) -> Context:
    """Returns the context of the function: a copy, so nothing has to be restored."""
    call._loop = asyncio.get_running_loop()
    context = copy_context()
    context.run(_current_call.set, call)
    return context


def _turn_or_none() -> LiveTurn | None:
    try:
        return live_turn()
    except LookupError:  # before the first turn, or after the last one
        return None
