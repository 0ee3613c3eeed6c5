"""Notes the Classifier's result."""

from typing import Any


def note_triage(kind: str, summary: str, missing: list[str], context_variables: Any = None) -> str:
    if context_variables is not None:
        context_variables.update({"kind": kind, "triage": {"kind": kind, "summary": summary, "missing": missing}})
    return f"noted: {kind}"
