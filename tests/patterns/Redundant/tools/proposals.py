"""Proposals of several agents, and the marks that one of them gives."""

from typing import Any

LEAST_MARK = 6


def propose(style: str, name: str, context_variables: Any = None) -> str:
    context_variables.set("proposals", {**context_variables["proposals"], style: name})
    return "handed in"


def judge(marks: dict[str, int], context_variables: Any = None) -> str:
    proposals = context_variables["proposals"]
    unknown = sorted(set(marks) - set(proposals))
    if unknown:
        raise ValueError(f"nobody proposed {', '.join(unknown)}")
    context_variables.set("rounds", context_variables["rounds"] + 1)
    best = max(marks, key=lambda style: marks[style], default=None)
    if best is None or marks[best] < LEAST_MARK:
        return "none is good enough"
    context_variables.set("winner", proposals[best])
    return f"the winner is {proposals[best]}"
