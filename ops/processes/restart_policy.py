"""When a child process that died is started again: a pure policy."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    min_delay_s: float = 0.5
    max_delay_s: float = 30.0
    healthy_life_s: float = 60.0

    def count_deaths(self, previous: int, lived_s: float, *, is_intended: bool = False) -> int:
        """How many deaths count, this one included; a long life forgives the earlier ones.

        One that ended on purpose wants to be started anew, and is no death, unless it hardly lived.
        """
        if is_intended and lived_s >= self.healthy_life_s:
            return 0
        return 1 if lived_s >= self.healthy_life_s else previous + 1

    def delay_s(self, deaths: int) -> float:
        if deaths == 0:
            return 0.0
        # The exponent is bounded first: 2 ** 10_000 is a number, but not a float.
        return min(self.max_delay_s, self.min_delay_s * 2.0 ** min(deaths - 1, 30))
