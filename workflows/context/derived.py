"""Derived variables: flip state when a turn shows what they wait for, before the routing of the same turn."""

import copy
import json
from collections.abc import Iterable, Mapping
from typing import Any

from workflows.context.context_variables import ContextVariables
from workflows.context.facts import FIXED_NAMES
from workflows.context.fitting import fitted
from workflows.context.observing import Fired, Transition, TurnSeen, Unset, captured_group
from workflows.context.value_types import ValueType, same
from workflows.package.models import Variable
from workflows.package.sources import StateSource


def derive(variables: Iterable[Variable], context: ContextVariables, turn: TurnSeen) -> dict[str, Any]:
    """Applies what fires; returns what changed. A turn moves a variable one step, however many guards it would pass
    one after another. Applied again it changes nothing more, unless a guard tells the two times apart."""
    changed: dict[str, Any] = {}
    for variable in variables:
        if not isinstance(variable.source, StateSource) or variable.name in FIXED_NAMES:
            continue
        before = context.get(variable.name)
        fired = [
            _value(each, found, variable.type)
            for each in variable.source.transitions
            if _guard_holds(each, before)
            and not _is_decided_by_tool(variable, each, turn)
            and (found := each.trigger.fires(turn)) is not None
        ]
        if fired and not same(before, fired[-1]):  # of several that fire, the last one written holds
            changed[variable.name] = copy.deepcopy(fired[-1])
            context.set(variable.name, changed[variable.name])
    return changed


def _guard_holds(transition: Transition, value: Any) -> bool:
    return isinstance(transition.from_, Unset) or same(value, transition.from_)


def _is_decided_by_tool(variable: Variable, transition: Transition, turn: TurnSeen) -> bool:
    return variable.name in turn.written and transition.trigger.type == "ui_response"


def _value(transition: Transition, fired: Fired, to: ValueType) -> Any:
    """Typed as the variable is, where there is one way to: an answer may say "true" and mean it."""
    if isinstance(transition.to, Unset):
        return fitted(fired.value, to)
    captured = captured_group(transition.to)
    return transition.to if captured is None else fitted(fired.groups[captured - 1], to)


_ENCODER = json.JSONEncoder(default=repr)  # `json.dumps` would make one for each value


def snapshot(context: Mapping[str, Any]) -> dict[str, str]:
    """How the context looks now. Text, since tools also change lists and mappings in place."""
    return {name: as_text(value) for name, value in context.items()}


def as_text(value: Any) -> str:
    try:
        return _ENCODER.encode(value)
    except (TypeError, ValueError, RecursionError):  # keys that are no text, cycles
        return repr(value)


def changes(before: Mapping[str, str], after: Mapping[str, Any]) -> dict[str, Any]:
    """What a turn did to the context since the snapshot: new values by name, None for removed ones."""
    now = snapshot(after)
    written = {name: value for name, value in after.items() if before.get(name) != now[name]}
    return written | {name: None for name in before if name not in after}
