"""Backoff of deliveries: delays of failed batches, pauses of failing endpoints."""

from collections.abc import Sequence
from dataclasses import dataclass

# The example schedule of Standard Webhooks: ten tries in three days.
DELAYS_S = (5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400)
JITTER = 0.2
MAX_DELAY_S = 86_400.0
MIN_ENDPOINT_PAUSE_S = 1.0
MAX_ENDPOINT_PAUSE_S = 60.0
MAX_RETRY_AFTER_S = 3_600.0
ANSWER_TIMEOUT_S = 20.0
BODY_TIMEOUT_S = 2.0


@dataclass(frozen=True, slots=True)
class DeliveryBackoff:
    delays_s: Sequence[float] = DELAYS_S
    max_endpoint_pause_s: float = MAX_ENDPOINT_PAUSE_S
    answer_timeout_s: float = ANSWER_TIMEOUT_S
    body_timeout_s: float = BODY_TIMEOUT_S  # of an answer, for the part that is shown to people

    def retry_delay_s(self, failures: int, *, retry_after_s: float | None, chance: float) -> float | None:
        """Returns the delay after so many failures of one batch, or None to give up.

        `chance` is from 0 to 1.
        """
        if failures > len(self.delays_s):
            return None
        pause_s = self.delays_s[failures - 1] * (1 + JITTER * chance)
        return max(pause_s, min(retry_after_s or 0.0, MAX_DELAY_S))

    def endpoint_pause_s(self, failures: int, *, retry_after_s: float | None) -> float:
        """Returns the pause after so many consecutive failures of the endpoint."""
        growing_s: float = MIN_ENDPOINT_PAUSE_S * 2.0 ** min(failures - 1, 20)
        return max(min(growing_s, self.max_endpoint_pause_s), min(retry_after_s or 0.0, MAX_RETRY_AFTER_S))
