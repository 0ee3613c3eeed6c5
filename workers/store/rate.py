"""A rate: so many starts, or requests, in so many seconds."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rate:
    count: int
    seconds: int

    @property
    def interval_s(self) -> float:
        return self.seconds / self.count
