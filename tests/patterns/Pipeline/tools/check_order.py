"""What is wrong with an order, if anything."""

from typing import Any


def check_order(context_variables: Any) -> str:
    order = context_variables.get("order") or {}
    problem = _problem(order)
    context_variables.set("order_problem", problem)
    return problem or "the order is fine"


def _problem(order: dict[str, Any]) -> str:
    if not order.get("items"):
        return "nothing was ordered"
    if any(item.get("count", 0) < 1 for item in order["items"]):
        return "a count is below 1"
    return ""
