"""The trigger `handoff`: a hand-off between `from` and `to` was taken.

Both name agents or `user`; `to` may be `terminate`.
"""

from dataclasses import dataclass

from workflows.context.state.state_transitions import StateTrigger, TriggerMatch, TurnObservation
from workflows.package.normal_form.package_model import TERMINATE
from workflows.package.readers.field_aliases import normalize_speaker, read_optional_name, used_field_name
from workflows.package.readers.section import Section

_SOURCE = ("from", "source_agent")
_TARGET = ("to", "target_agent")


@dataclass(frozen=True, slots=True)
class HandoffTrigger:
    """Fires on a hand-off. `source` None stands for any agent, or the user."""

    target: str
    source: str | None = None
    type: str = "handoff"

    def fires(self, turn: TurnObservation) -> TriggerMatch | None:
        if turn.handoff is None or turn.handoff.target != self.target:
            return None
        return TriggerMatch() if self.source in (None, turn.handoff.source) else None


def read(section: Section) -> StateTrigger | None:
    """Reads the fields, which have the same names as in rules."""
    target, source = read_optional_name(section, *_TARGET), read_optional_name(section, *_SOURCE)
    if target is None:
        section.error("missing_field", "to", "is needed: write to: and an agent, user or terminate")
        return None
    if source is not None and normalize_speaker(source) == TERMINATE:
        message = "is the end of the chat, and nothing follows it; name an agent or user"
        section.error("wrong_value", used_field_name(section, *_SOURCE), message)
        return None
    return HandoffTrigger(normalize_speaker(target), None if source is None else normalize_speaker(source))
