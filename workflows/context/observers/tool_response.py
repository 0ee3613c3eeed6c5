"""The trigger `tool_response`: a tool answered; a key may become the value."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, cast

from workflows.context.state.answer_match import AnswerMatch
from workflows.context.state.state_transitions import ObservedToolResult, StateTrigger, TriggerMatch, TurnObservation
from workflows.package.readers.section import Section
from workflows.package.readers.variables.answer_match_reader import BadMatchError, read_answer_match

Status = Literal["success", "error", "any"]
STATUSES = ("success", "error", "any")


@dataclass(frozen=True, slots=True)
class ToolResponseTrigger:
    """Fires on a tool's answer.

    With `response_key`, only an answer with this key counts; `match` is what its value must be."""

    tool: str
    status: Status = "success"
    response_key: str | None = None
    match: AnswerMatch | None = None
    type: str = "tool_response"

    def fires(self, turn: TurnObservation) -> TriggerMatch | None:
        """Returns the match of the turn's last fitting answer."""
        fired = (self._match_result(result) for result in reversed(turn.tool_results) if result.tool == self.tool)
        return next((found for found in fired if found is not None), None)

    def _match_result(self, result: ObservedToolResult) -> TriggerMatch | None:
        if self.status != "any" and result.ok != (self.status == "success"):
            return None
        value = result.value
        if self.response_key is not None:
            if not isinstance(value, Mapping) or self.response_key not in value:
                return None
            value = value[self.response_key]
        if self.match is not None and not self.match.matches(value):
            return None
        return TriggerMatch() if self.response_key is None else TriggerMatch(value)


def read(section: Section) -> StateTrigger | None:
    tool = section.required_text("tool")
    status = (section.text("status") or "success").lower()
    if status not in STATUSES:
        section.error("wrong_value", "status", f"must be one of {', '.join(STATUSES)}")
        return None
    key = section.text("response_key")
    if key is not None and status == "error":
        section.warning("never_fires", "response_key", "has no value when the tool fails; leave it out")
    try:
        return ToolResponseTrigger(tool, cast("Status", status), key, read_answer_match(section))
    except BadMatchError:
        return None
