"""Returns yesterday's numbers of a region. Replace the table by your own query."""

from typing import Annotated, Any

_NUMBERS: dict[str, dict[str, Any]] = {
    "eu": {"orders": 128, "orders_change_percent": 9, "refunds": 3, "revenue_eur": 18_240, "open_tickets": 14},
    "us": {"orders": 94, "orders_change_percent": -2, "refunds": 1, "revenue_eur": 15_110, "open_tickets": 6},
}


def read_numbers(region: Annotated[str, "eu or us"], context_variables: Any = None) -> dict[str, Any]:
    numbers = _NUMBERS.get(region.lower())
    if numbers is None:
        return {"error": f"no numbers for {region}; known regions: {', '.join(sorted(_NUMBERS))}"}
    if context_variables is not None:
        context_variables.set("numbers", numbers)
    return numbers
