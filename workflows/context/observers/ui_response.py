"""`ui_response`: a tool that shows something to a person has the answer; its value becomes the variable's."""

from collections.abc import Mapping
from dataclasses import dataclass

from workflows.context.observing import Fired, Trigger, TurnSeen
from workflows.package.reading.section import Section


@dataclass(frozen=True, slots=True)
class UiResponse:
    tool: str
    response_key: str
    type: str = "ui_response"

    def fires(self, turn: TurnSeen) -> Fired | None:
        """The last answer of the turn counts: what the tool made of it and returned, else as it was given."""
        returned = (result.value for result in reversed(turn.tool_results) if result.ok and result.tool == self.tool)
        given = (answer for tool, answer in reversed(turn.ui_answers) if tool == self.tool)
        for answer in (*returned, *given):
            if isinstance(answer, Mapping) and self.response_key in answer:
                return Fired(answer[self.response_key])
        return None


def read(section: Section) -> Trigger | None:
    section.get("ui_hidden")
    return UiResponse(section.required_text("tool"), section.required_text("response_key"))
