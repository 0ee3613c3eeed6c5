"""The trigger `agent_turn_count`: an agent has taken that many turns or more."""

from dataclasses import dataclass

from workflows.context.state.state_transitions import StateTrigger, TriggerMatch, TurnObservation
from workflows.package.readers.section import Section


@dataclass(frozen=True, slots=True)
class AgentTurnCountTrigger:
    agent: str
    count: int
    type: str = "agent_turn_count"

    def fires(self, turn: TurnObservation) -> TriggerMatch | None:
        return TriggerMatch() if turn.turns_by_agent.get(self.agent, 0) >= self.count else None


def read(section: Section) -> StateTrigger | None:
    agent = section.required_text("agent")
    if section.get("count", "turns", "n") is None:
        section.error("missing_field", "count", "is needed; write count: 3")
        return None
    return AgentTurnCountTrigger(agent, section.integer("count", "turns", "n", default=1))
