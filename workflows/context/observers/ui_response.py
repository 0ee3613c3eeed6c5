"""`ui_response`: a tool that shows something to a person has the answer; its value becomes the variable's."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from workflows.context.state.answer_values import AnswerMatch
from workflows.context.state.state_transitions import StateTrigger, TriggerMatch, TurnObservation
from workflows.package.readers.section import Section
from workflows.package.readers.variables.answer_match_reader import BadMatchError, read_answer_match


@dataclass(frozen=True, slots=True)
class UiResponseTrigger:
    """With `response_key`, only an answer that has this key counts; `match` is what its value must be."""

    tool: str
    response_key: str | None = None
    match: AnswerMatch | None = None
    type: str = "ui_response"

    def fires(self, turn: TurnObservation) -> TriggerMatch | None:
        """The last answer of the turn counts, and no earlier one that would fit: a `no` takes back a `yes`."""
        for answer in self._answers(turn):
            if self.match is not None and not self.match.matches(answer):
                return None
            return TriggerMatch() if self.response_key is None else TriggerMatch(answer)
        return None

    def _answers(self, turn: TurnObservation) -> Iterator[Any]:
        """What the tool made of an answer and returned, else what it was given. Without a key the two cannot be told
        apart from a tool that asked nobody, so only what was given is an answer."""
        given = (answer for tool, answer in reversed(turn.ui_answers) if tool == self.tool)
        if self.response_key is None:
            yield from given
            return
        returned = (result.value for result in reversed(turn.tool_results) if result.ok and result.tool == self.tool)
        for answer in (*returned, *given):
            if isinstance(answer, Mapping) and self.response_key in answer:
                yield answer[self.response_key]


def read(section: Section) -> StateTrigger | None:
    section.get("ui_hidden")
    tool, key = section.required_text("tool"), section.text("response_key")
    try:
        return UiResponseTrigger(tool, key, read_answer_match(section))
    except BadMatchError:
        return None
