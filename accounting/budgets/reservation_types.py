"""Reservations as a chat sees them: made before a model call and settled after it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime

from accounting.usage import ModelCall


class BudgetExhaustedError(Exception):
    """Nothing is left to reserve. The text names the budget and the end of its window."""


class BudgetHoldError(Exception):
    """Nothing is left to reserve, and the run waits for the next window under `held_by`."""

    def __init__(self, message: str, *, held_by: str, until: datetime | None) -> None:
        super().__init__(message)
        self.held_by = held_by
        self.until = until


class BudgetBusyError(Exception):
    """Other calls have reserved what is left. There may be room when they are settled."""


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """A model call that is about to be made. `prompt_characters` serves its estimate."""

    number: int
    agent: str
    provider: str
    model: str
    prompt_characters: int


# A `reserve` that raises or is cancelled has reserved nothing. The function that it returns is called exactly once,
# when the call has ended, successfully or not, and is recorded.
Settle = Callable[[ModelCall], Awaitable[None]]
Reserve = Callable[[PlannedCall], Awaitable[Settle]]


async def reserve_unlimited(_: PlannedCall) -> Settle:
    """Reserves without any budget."""
    return settle_nothing


async def settle_nothing(_: ModelCall) -> None: ...
