"""The trigger `timer_expired`: the turns of a run have worked that long together.

It counts work, not wall-clock time: a run that waited in a queue, or is resumed, derives the same.
"""

from dataclasses import dataclass

from workflows.context.state.state_transitions import StateTrigger, TriggerMatch, TurnObservation
from workflows.package.readers.durations import read_duration_s
from workflows.package.readers.section import Section


@dataclass(frozen=True, slots=True)
class TimerExpiredTrigger:
    after_s: float
    type: str = "timer_expired"

    def fires(self, turn: TurnObservation) -> TriggerMatch | None:
        return TriggerMatch() if turn.elapsed_s >= self.after_s else None


def read(section: Section) -> StateTrigger | None:
    if section.get("after", "duration", "timeout") is None:
        section.error("missing_field", "after", "is needed; write after: 15m")
        return None
    after_s = read_duration_s(section, "after", "duration", "timeout", default=0.0)
    return TimerExpiredTrigger(after_s) if after_s > 0 else None
