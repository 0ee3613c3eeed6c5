"""`tool_response`: a tool answered, well or not; a key of its answer may become the variable's value."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from workflows.context.observing import UNSET, Fired, ToolResult, Trigger, TurnSeen, Unset
from workflows.context.value_types import same
from workflows.package.reading.section import Section

Status = Literal["success", "error", "any"]
STATUSES = ("success", "error", "any")


@dataclass(frozen=True, slots=True)
class ToolResponse:
    """With `response_key`, only an answer that has this key counts; `equals` is what its value must be."""

    tool: str
    status: Status = "success"
    response_key: str | None = None
    equals: Any = UNSET
    type: str = "tool_response"

    def fires(self, turn: TurnSeen) -> Fired | None:
        """The last answer of the turn that fits counts."""
        fired = (self._one(result) for result in reversed(turn.tool_results) if result.tool == self.tool)
        return next((found for found in fired if found is not None), None)

    def _one(self, result: ToolResult) -> Fired | None:
        if self.status != "any" and result.ok != (self.status == "success"):
            return None
        value = result.value
        if self.response_key is not None:
            if not isinstance(value, Mapping) or self.response_key not in value:
                return None
            value = value[self.response_key]
        if not isinstance(self.equals, Unset) and not same(_plain(value), _plain(self.equals)):
            return None
        return Fired() if self.response_key is None else Fired(value)


def _plain(value: Any) -> Any:
    return value.strip().lower() if isinstance(value, str) else value


def read(section: Section) -> Trigger | None:
    tool = section.required_text("tool")
    status = (section.text("status") or "success").lower()
    if status not in STATUSES:
        section.error("wrong_value", "status", f"must be one of {', '.join(STATUSES)}")
        return None
    key = section.text("response_key")
    if key is not None and status == "error":
        section.warning("never_fires", "response_key", "has no value when the tool fails; leave it out")
    match = section.child(section.get("match") or {}, "match")
    equals = match.body.get("equals", UNSET)
    match.get("equals")
    if match.body and isinstance(equals, Unset):
        match.error("wrong_value", "", "of a tool_response is written equals: …")
    match.report_rest()
    return ToolResponse(tool, cast("Status", status), key, equals)
