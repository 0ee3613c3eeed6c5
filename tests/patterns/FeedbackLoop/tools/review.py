"""Counts the rounds, so that a draft that nobody likes does not go round for ever."""

from typing import Annotated, Any

MOST_ROUNDS = 3


def review(points: Annotated[list[str], "what must be mended"], context_variables: Any = None) -> str:
    rounds = context_variables["rounds"] + 1
    verdict = "approved" if not points else "given_up" if rounds >= MOST_ROUNDS else "mend"
    context_variables["rounds"] = rounds
    context_variables["points"] = points
    context_variables["verdict"] = verdict
    return verdict
