"""Budgets, as a chat asks them: money is reserved before a model call and settled after it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime

from accounting.usage import ModelCall


class BudgetExhaustedError(Exception):
    """There is nothing left to reserve; the text says of what, and until when."""


class BudgetHoldError(Exception):
    """As BudgetExhaustedError, but the run is to wait for the next window. `held_by` names the budget."""

    def __init__(self, message: str, *, held_by: str, until: datetime | None) -> None:
        super().__init__(message)
        self.held_by = held_by
        self.until = until


class BudgetBusyError(Exception):
    """What is left is reserved by other calls. When they are settled there may be room."""


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """A model call that is about to be made. `prompt_characters` is what is sent, to estimate from."""

    number: int
    agent: str
    provider: str
    model: str
    prompt_characters: int


# A reserve that is cancelled or raises has reserved nothing. What it returns is called exactly once, when the call has
# ended in whatever way and is recorded.
Settle = Callable[[ModelCall], Awaitable[None]]
Reserve = Callable[[PlannedCall], Awaitable[Settle]]


async def reserve_unlimited(_: PlannedCall) -> Settle:
    """The budget of who has none."""
    return settle_nothing


async def settle_nothing(_: ModelCall) -> None: ...
