"""The trigger `ui_response`: a person answered a tool; a value may come from it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from workflows.context.state.answer_match import AnswerMatch
from workflows.context.state.state_transitions import StateTrigger, TriggerMatch, TurnObservation
from workflows.package.readers.section import Section
from workflows.package.readers.variables.answer_match_reader import BadMatchError, read_answer_match


@dataclass(frozen=True, slots=True)
class UiResponseTrigger:
    """Fires on a person's answer.

    With `response_key`, only an answer with this key counts; `match` is what its value must be."""

    tool: str
    response_key: str | None = None
    match: AnswerMatch | None = None
    type: str = "ui_response"

    def fires(self, turn: TurnObservation) -> TriggerMatch | None:
        """Uses the last answer of the turn only: a `no` takes back an earlier `yes`."""
        for answer in self._answers(turn):
            if self.match is not None and not self.match.matches(answer):
                return None
            return TriggerMatch() if self.response_key is None else TriggerMatch(answer)
        return None

    def _answers(self, turn: TurnObservation) -> Iterator[Any]:
        """Yields what the tool returned for an answer, then the answer itself.

        Without a key, a returned value may come from a tool that asked no question, so only the answer itself counts.
        """
        answers = (answer for tool, answer in reversed(turn.ui_answers) if tool == self.tool)
        if self.response_key is None:
            yield from answers
            return
        returned = (result.value for result in reversed(turn.tool_results) if result.ok and result.tool == self.tool)
        for answer in (*returned, *answers):
            if isinstance(answer, Mapping) and self.response_key in answer:
                yield answer[self.response_key]


def read(section: Section) -> StateTrigger | None:
    section.get("ui_hidden")
    tool, key = section.required_text("tool"), section.text("response_key")
    try:
        return UiResponseTrigger(tool, key, read_answer_match(section))
    except BadMatchError:
        return None
