"""`lifecycle`: the steps of a moment of the run or of a turn are over, or there are none."""

from dataclasses import dataclass

from workflows.context.observing import Fired, Trigger, TurnSeen
from workflows.package.models import Moment
from workflows.package.reading.lifecycle_tools import AROUND_A_TURN, MOMENTS, report_agent_of_no_turn
from workflows.package.reading.section import Section
from workflows.package.reading.spelling import optional_name


@dataclass(frozen=True, slots=True)
class Lifecycle:
    """`agent`: only around turns of this agent."""

    event: Moment
    agent: str | None = None
    type: str = "lifecycle"

    def fires(self, turn: TurnSeen) -> Fired | None:
        if turn.moment is None or turn.moment.moment != self.event:
            return None
        return Fired() if self.agent in (None, turn.moment.agent) else None


def read(section: Section) -> Trigger | None:
    written, agent = optional_name(section, "event"), optional_name(section, "agent")
    choices = ", ".join(MOMENTS)
    if written is None:
        section.error("missing_field", "event", f"is needed: write event: and one of {choices}")
        return None
    event = MOMENTS.get(written)
    if event is None:
        section.error("wrong_value", "event", f"{written} is no moment of a run; write one of {choices}")
        return None
    if agent is not None:
        report_agent_of_no_turn(section, "agent", event)
    return Lifecycle(event, agent if event in AROUND_A_TURN else None)
