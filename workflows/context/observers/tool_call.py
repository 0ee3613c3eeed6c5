"""`tool_call`: a tool was called, whatever came of it."""

from dataclasses import dataclass

from workflows.context.observing import Fired, Trigger, TurnSeen
from workflows.package.reading.section import Section
from workflows.package.reading.spelling import optional_name


@dataclass(frozen=True, slots=True)
class ToolCall:
    """`agent`: only in turns of this agent."""

    tool: str
    agent: str | None = None
    type: str = "tool_call"

    def fires(self, turn: TurnSeen) -> Fired | None:
        return Fired() if self.agent in (None, turn.agent) and self.tool in turn.tool_calls else None


def read(section: Section) -> Trigger | None:
    return ToolCall(section.required_text("tool"), optional_name(section, "agent"))
