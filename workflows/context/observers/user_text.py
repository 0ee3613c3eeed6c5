"""The trigger `user_text`: a person's message equals, contains or matches a text.

It watches the messages after a hand-off to `user`.
"""

from dataclasses import dataclass

from workflows.context.observers.agent_text import AgentTextTrigger, read_text_match
from workflows.context.state.state_transitions import StateTrigger, TriggerMatch, TurnObservation
from workflows.package.normal_form.package_model import USER
from workflows.package.readers.section import Section


@dataclass(frozen=True, slots=True)
class UserTextTrigger:
    """Fires on a message of the user, which is no agent."""

    text_match: AgentTextTrigger
    type: str = "user_text"

    @property
    def groups(self) -> int:
        return self.text_match.groups

    def fires(self, turn: TurnObservation) -> TriggerMatch | None:
        return self.text_match.fires(turn)


def read(section: Section) -> StateTrigger | None:
    section.get("agent")  # accepted and ignored: the speaker is always the user
    text_match = read_text_match(section, USER)
    return None if text_match is None else UserTextTrigger(text_match)
