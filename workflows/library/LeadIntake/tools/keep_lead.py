"""Stores a lead in its document in `crm.leads`, one per email."""

from typing import Any

GOOD_ENOUGH = 60


def keep_score(score: int, why: str, context_variables: Any) -> str:
    lead = {name: context_variables[name] for name in ("name", "company", "story")}
    context_variables.set("lead", {**lead, "score": score, "why": why})
    context_variables.set("qualified", score >= GOOD_ENOUGH)
    return f"kept: {score}"


def keep_reply(reply: str, context_variables: Any) -> str:
    context_variables.set("lead", {**context_variables["lead"], "reply": reply})
    return "kept"
