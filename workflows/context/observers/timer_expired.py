"""`timer_expired`: the turns of a run have worked that long together, from then on.

Work, not wall-clock time: a run that waited in a queue, or is resumed, derives the same.
"""

from dataclasses import dataclass

from workflows.context.observing import Fired, Trigger, TurnSeen
from workflows.package.reading.durations import read_duration_s
from workflows.package.reading.section import Section


@dataclass(frozen=True, slots=True)
class TimerExpired:
    after_s: float
    type: str = "timer_expired"

    def fires(self, turn: TurnSeen) -> Fired | None:
        return Fired() if turn.elapsed_s >= self.after_s else None


def read(section: Section) -> Trigger | None:
    if section.get("after", "duration", "timeout") is None:
        section.error("missing_field", "after", "is needed; write after: 15m")
        return None
    after_s = read_duration_s(section, "after", "duration", "timeout", default=0.0)
    return TimerExpired(after_s) if after_s > 0 else None
