"""A rate: a number of starts, or requests, in a number of seconds."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rate:
    count: int
    seconds: int

    @property
    def interval_s(self) -> float:
        return self.seconds / self.count
