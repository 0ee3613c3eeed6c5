"""Retry policy: pure functions from an outcome and the attempts so far to what happens to the run."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from workers.store.run import Hold, HoldKind, RunState
from workflows.outcome import Outcome, OutcomeKind, is_success

FIRST_DELAY_S = 2.0
MAX_DELAY_S = 300.0
MAX_RETRY_AFTER_S = 3600.0


@dataclass(frozen=True, slots=True)
class Finish:
    state: RunState


@dataclass(frozen=True, slots=True)
class Requeue:
    """Back to the queue. With a `hold`, the run is not due until that limit releases it."""

    delay: timedelta
    counts_as_attempt: bool
    hold: Hold | None = None


def decide(
    outcome: Outcome, *, pattern: str, attempt: int, max_attempts: int, random: Callable[[], float]
) -> Finish | Requeue:
    """Decides what happens to the run after this outcome.

    `random` returns a number from 0 to 1, for full jitter: retries of many runs must not coincide.
    """
    kind = outcome.kind
    if kind is OutcomeKind.HANDED_BACK:
        return _decide_hand_back(outcome, random)
    if outcome.transient:
        if attempt >= max_attempts:
            return Finish(RunState.PARKED)
        return Requeue(backoff(attempt, random=random, retry_after_s=outcome.retry_after_s), counts_as_attempt=True)
    if is_success(outcome, pattern=pattern):
        return Finish(RunState.SUCCEEDED)
    if kind is OutcomeKind.NEEDS_HUMAN:
        return Finish(RunState.NEEDS_HUMAN)
    if kind is OutcomeKind.CANCELLED:
        return Finish(RunState.CANCELLED)
    return Finish(RunState.FAILED)


def _decide_hand_back(outcome: Outcome, random: Callable[[], float]) -> Requeue:
    hold = None
    if outcome.held_by is not None:
        hold = Hold(HoldKind.BUDGET, outcome.held_by, outcome.held_until)
    delay_s = (outcome.retry_after_s or 0.0) * (0.5 + random())
    return Requeue(timedelta(seconds=delay_s), counts_as_attempt=False, hold=hold)


def backoff(attempt: int, *, random: Callable[[], float], retry_after_s: float | None = None) -> timedelta:
    """Returns an exponential delay with full jitter, or the delay that the server asked for."""
    ceiling = min(MAX_DELAY_S, FIRST_DELAY_S * 2 ** min(attempt - 1, 20))
    asked = min(max(retry_after_s or 0.0, 0.0), MAX_RETRY_AFTER_S)
    return timedelta(seconds=asked + ceiling * random())
