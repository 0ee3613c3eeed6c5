"""Derived variables: flip state when an agent says something, before the routing of the same turn."""

import copy
import json
import logging
from collections.abc import Iterable, Mapping
from typing import Any

import regex

from workflows.context.context_variables import ContextVariables
from workflows.package.models import AgentText, Variable

log = logging.getLogger(__name__)

MATCH_TIMEOUT_S = 0.25
MAX_MATCHED_LENGTH = 20_000  # a pattern sees at most this much of a reply


def derive(variables: Iterable[Variable], context: ContextVariables, *, agent: str, text: str) -> dict[str, Any]:
    """Applies what matches; returns what changed. Applying it again changes nothing more."""
    changed: dict[str, Any] = {}
    for variable in variables:
        values = [each.value for each in variable.triggers if each.agent == agent and matches(each, text)]
        if values and context.get(variable.name) != values[-1]:  # of several that match, the last one written holds
            changed[variable.name] = copy.deepcopy(values[-1])
            context.set(variable.name, changed[variable.name])
    return changed


def matches(trigger: AgentText, text: str) -> bool:
    if trigger.equals is not None:
        return text.strip().lower() == trigger.equals.strip().lower()
    if trigger.contains is not None:
        return trigger.contains.lower() in text.lower()
    return _found(trigger.regex or "", text[:MAX_MATCHED_LENGTH])


def _found(pattern: str, text: str) -> bool:
    """All runs of a process share one loop: a pattern that backtracks without end must not stop it."""
    try:
        return regex.search(pattern, text, regex.IGNORECASE, timeout=MATCH_TIMEOUT_S) is not None
    except TimeoutError:
        log.warning("pattern_timed_out", extra={"pattern": pattern[:100], "characters": len(text)})
        return False


def snapshot(context: Mapping[str, Any]) -> dict[str, str]:
    """How the context looks now. Text, since tools also change lists and mappings in place."""
    return {name: _as_text(value) for name, value in context.items()}


def _as_text(value: Any) -> str:
    try:
        return json.dumps(value, default=repr)
    except (TypeError, ValueError, RecursionError):  # keys that are no text, cycles
        return repr(value)


def changes(before: Mapping[str, str], after: Mapping[str, Any]) -> dict[str, Any]:
    """What a turn did to the context since the snapshot: new values by name, None for removed ones."""
    now = snapshot(after)
    written = {name: value for name, value in after.items() if before.get(name) != now[name]}
    return written | {name: None for name in before if name not in after}
