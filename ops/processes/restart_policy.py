"""The restart policy: how long to wait before a dead child process is started again."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    min_delay_s: float = 0.5
    max_delay_s: float = 30.0
    healthy_life_s: float = 60.0

    def count_deaths(self, previous: int, lived_s: float, *, is_intended: bool = False) -> int:
        """Count consecutive deaths, this one included; a healthy life resets the count.

        An intended exit is no death, unless it came too early.
        """
        if is_intended and lived_s >= self.healthy_life_s:
            return 0
        return 1 if lived_s >= self.healthy_life_s else previous + 1

    def delay_s(self, deaths: int) -> float:
        if deaths == 0:
            return 0.0
        # Bound the exponent, as 2.0 ** 10_000 overflows.
        return min(self.max_delay_s, self.min_delay_s * 2.0 ** min(deaths - 1, 30))
