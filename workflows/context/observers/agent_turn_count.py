"""`agent_turn_count`: an agent has had that many turns, from then on."""

from dataclasses import dataclass

from workflows.context.observing import Fired, Trigger, TurnSeen
from workflows.package.reading.section import Section


@dataclass(frozen=True, slots=True)
class AgentTurnCount:
    agent: str
    count: int
    type: str = "agent_turn_count"

    def fires(self, turn: TurnSeen) -> Fired | None:
        return Fired() if turn.turns_by_agent.get(self.agent, 0) >= self.count else None


def read(section: Section) -> Trigger | None:
    agent = section.required_text("agent")
    if section.get("count", "turns", "n") is None:
        section.error("missing_field", "count", "is needed; write count: 3")
        return None
    return AgentTurnCount(agent, section.integer("count", "turns", "n", default=1))
