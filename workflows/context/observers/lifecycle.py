"""The trigger `lifecycle`: a moment's steps are over, or it has none."""

from dataclasses import dataclass

from workflows.context.state.state_transitions import StateTrigger, TriggerMatch, TurnObservation
from workflows.package.normal_form.package_model import Moment
from workflows.package.readers.field_aliases import read_optional_name
from workflows.package.readers.section import Section
from workflows.package.readers.tools.lifecycle_tools_reader import MOMENTS, TURN_MOMENTS, report_agent_without_turn


@dataclass(frozen=True, slots=True)
class LifecycleTrigger:
    """Fires after a moment, with `agent` only around turns of this agent."""

    event: Moment
    agent: str | None = None
    type: str = "lifecycle"

    def fires(self, turn: TurnObservation) -> TriggerMatch | None:
        if turn.moment is None or turn.moment.moment != self.event:
            return None
        return TriggerMatch() if self.agent in (None, turn.moment.agent) else None


def read(section: Section) -> StateTrigger | None:
    event_name, agent = read_optional_name(section, "event"), read_optional_name(section, "agent")
    choices = ", ".join(MOMENTS)
    if event_name is None:
        section.error("missing_field", "event", f"is needed: write event: and one of {choices}")
        return None
    event = MOMENTS.get(event_name)
    if event is None:
        section.error("wrong_value", "event", f"{event_name} is no moment of a run; write one of {choices}")
        return None
    if agent is not None:
        report_agent_without_turn(section, "agent", event)
    return LifecycleTrigger(event, agent if event in TURN_MOMENTS else None)
