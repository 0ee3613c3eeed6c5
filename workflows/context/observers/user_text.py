"""`user_text`: what a person answers, when the run has handed over to `user`, equals, contains or matches something."""

from dataclasses import dataclass

from workflows.context.observers.agent_text import AgentTextTrigger, read_text_match
from workflows.context.state.state_transitions import StateTrigger, TriggerMatch, TurnObservation
from workflows.package.normal_form.package_model import USER
from workflows.package.readers.section import Section


@dataclass(frozen=True, slots=True)
class UserTextTrigger:
    """Watches no agent: the user is none."""

    text_match: AgentTextTrigger
    type: str = "user_text"

    @property
    def groups(self) -> int:
        return self.text_match.groups

    def fires(self, turn: TurnObservation) -> TriggerMatch | None:
        return self.text_match.fires(turn)


def read(section: Section) -> StateTrigger | None:
    section.get("agent")  # nobody else is meant
    words = read_text_match(section, USER)
    return None if words is None else UserTextTrigger(words)
