"""The trigger `agent_text`: an agent's reply equals, contains or matches a text."""

from dataclasses import dataclass

from workflows.context.expressions.text_patterns import PatternError, check_pattern, is_exponential, search_pattern
from workflows.context.state.state_transitions import StateTrigger, TriggerMatch, TurnObservation
from workflows.package.readers.section import Section

MATCH_WAYS = ("equals", "contains", "regex")


@dataclass(frozen=True, slots=True)
class AgentTextTrigger:
    """Fires on a text.

    Exactly one of the three is set. `groups` is the number of `$1`, `$2` … that its pattern captures."""

    agent: str
    equals: str | None = None
    contains: str | None = None
    regex: str | None = None
    groups: int = 0
    type: str = "agent_text"

    def fires(self, turn: TurnObservation) -> TriggerMatch | None:
        if turn.agent != self.agent:
            return None
        if self.equals is not None:
            return TriggerMatch() if turn.text.strip().lower() == self.equals.strip().lower() else None
        if self.contains is not None:
            return TriggerMatch() if self.contains.lower() in turn.text.lower() else None
        found = None if self.regex is None else search_pattern(self.regex, turn.text)
        return None if found is None else TriggerMatch(groups=found)


def read(section: Section) -> StateTrigger | None:
    return read_text_match(section, section.required_text("agent"))


def read_text_match(section: Section, agent: str) -> AgentTextTrigger | None:
    section.get("ui_hidden")  # without meaning in a headless chat
    match = section.child(section.get("match") or {}, "match")
    ways = {name: text for name in MATCH_WAYS if (text := match.text(name)) is not None}
    match.report_unread()
    if len(ways) != 1 or not all(ways.values()):
        match.error("wrong_value", "", "give exactly one of equals, contains, regex, with a text")
        return None
    groups = _count_groups(match, ways["regex"]) if "regex" in ways else 0
    return None if groups is None else AgentTextTrigger(agent=agent, groups=groups, **ways)


def _count_groups(match: Section, pattern: str) -> int | None:
    try:
        groups = check_pattern(pattern)
    except PatternError as error:
        match.error("wrong_value", "regex", str(error))
        return None
    if is_exponential(pattern):
        message = "repeats a repetition, and a text that almost matches takes it for ever; matching stops after 0.25 s"
        match.warning("slow_pattern", "regex", f"{message}. Write (a+)+ as a+")
    return groups
