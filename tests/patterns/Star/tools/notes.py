from typing import Any


def keep_note(note: str, context_variables: Any = None) -> str:
    context_variables.set("noted", bool(note.strip()))
    return "kept"


def keep_fact(fact: str, agent: str, context_variables: Any = None) -> str:
    context_variables.set("known", {**context_variables.get("known", {}), agent: fact})
    return "kept"
