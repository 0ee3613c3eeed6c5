"""The trigger `tool_call`: a tool was called, whatever the result."""

from dataclasses import dataclass

from workflows.context.state.state_transitions import StateTrigger, TriggerMatch, TurnObservation
from workflows.package.readers.field_aliases import read_optional_name
from workflows.package.readers.section import Section


@dataclass(frozen=True, slots=True)
class ToolCallTrigger:
    """Fires on a call, with `agent` only in turns of this agent."""

    tool: str
    agent: str | None = None
    type: str = "tool_call"

    def fires(self, turn: TurnObservation) -> TriggerMatch | None:
        return TriggerMatch() if self.agent in (None, turn.agent) and self.tool in turn.tool_calls else None


def read(section: Section) -> StateTrigger | None:
    return ToolCallTrigger(section.required_text("tool"), read_optional_name(section, "agent"))
