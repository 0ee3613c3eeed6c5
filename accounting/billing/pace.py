"""The pace of billing: how long an answer may take, when what failed is tried again, and how long its endpoint
is spared."""

from collections.abc import Sequence
from dataclasses import dataclass

# The schedule that Standard Webhooks gives as its example: ten tries in three days.
PAUSES_S = (5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400)
JITTER = 0.2
LONGEST_PAUSE_S = 86_400.0
SPARED_S = 1.0
LONGEST_SPARED_S = 60.0
LONGEST_ASKED_S = 3_600.0
ANSWERS_WITHIN_S = 20.0


@dataclass(frozen=True, slots=True)
class Pace:
    pauses_s: Sequence[float] = PAUSES_S
    longest_spared_s: float = LONGEST_SPARED_S
    answers_within_s: float = ANSWERS_WITHIN_S

    def again_in_s(self, failures: int, *, retry_after_s: float | None, chance: float) -> float | None:
        """After so many failures of a batch; None when it has been tried often enough. `chance` is from 0 to 1."""
        if failures > len(self.pauses_s):
            return None
        pause_s = self.pauses_s[failures - 1] * (1 + JITTER * chance)
        return max(pause_s, min(retry_after_s or 0.0, LONGEST_PAUSE_S))

    def spared_s(self, failures: int, *, retry_after_s: float | None) -> float:
        """After so many failures in a row of an endpoint, whichever batches they were."""
        growing_s: float = SPARED_S * 2.0 ** min(failures - 1, 20)
        return max(min(growing_s, self.longest_spared_s), min(retry_after_s or 0.0, LONGEST_ASKED_S))
