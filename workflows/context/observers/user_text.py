"""`user_text`: what a person answers, when the run has handed over to `user`, equals, contains or matches something."""

from dataclasses import dataclass

from workflows.context.observers.agent_text import AgentText, read_words
from workflows.context.observing import Fired, Trigger, TurnSeen
from workflows.package.models import USER
from workflows.package.reading.section import Section


@dataclass(frozen=True, slots=True)
class UserText:
    """Watches no agent: the user is none."""

    words: AgentText
    type: str = "user_text"

    @property
    def groups(self) -> int:
        return self.words.groups

    def fires(self, turn: TurnSeen) -> Fired | None:
        return self.words.fires(turn)


def read(section: Section) -> Trigger | None:
    section.get("agent")  # nobody else is meant
    words = read_words(section, USER)
    return None if words is None else UserText(words)
