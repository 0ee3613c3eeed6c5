"""Options of the budgets of a process: timings and bounds with their defaults."""

from dataclasses import dataclass

from accounting.budgets.effective_budgets import REFRESH_INTERVAL_S, REFRESH_TIMEOUT_S
from accounting.budgets.estimates import FLUSH_INTERVAL_S
from accounting.budgets.window_store import RESERVATION_TTL_S, STORE_TIMEOUT_S


@dataclass(frozen=True, slots=True)
class BudgetOptions:
    """How often a process reads budgets and writes windows, and how long it waits."""

    refresh_interval_s: float = REFRESH_INTERVAL_S
    refresh_timeout_s: float = REFRESH_TIMEOUT_S
    store_timeout_s: float = STORE_TIMEOUT_S
    room_timeout_s: float = 9.0  # a little less than a chat waits for its budgets
    room_retry_s: float = 0.25
    store_retry_s: float = 1.0
    flush_delay_s: float = 0.2  # settled amounts wait so long for a request to go along with
    renew_interval_s: float = RESERVATION_TTL_S / 4
    idle_timeout_s: float = RESERVATION_TTL_S / 3  # after it a process leaves a window
    max_requests: int = 200  # in one command
    estimates_interval_s: float = FLUSH_INTERVAL_S
    close_timeout_s: float = 1.5
