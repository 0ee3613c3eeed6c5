"""Derived variables: flip state when a turn shows what they wait for, before the routing of the same turn."""

import copy
import json
from collections.abc import Iterable, Mapping
from typing import Any

from workflows.context.context_variables import ContextVariables
from workflows.context.run_facts import FIXED_NAMES
from workflows.context.state.state_transitions import Transition, TriggerMatch, TurnObservation, Unset, captured_group
from workflows.context.values.type_coercion import coerce_or_keep
from workflows.context.values.value_types import ValueType, is_same_value
from workflows.package.normal_form.package_model import Variable
from workflows.package.normal_form.variable_sources import StateSource


def derive_states(variables: Iterable[Variable], context: ContextVariables, turn: TurnObservation) -> dict[str, Any]:
    """Applies what fires; returns what changed. A turn moves a variable one step, however many guards it would pass
    one after another. Applied again it changes nothing more, unless a guard tells the two times apart."""
    changed: dict[str, Any] = {}
    for variable in variables:
        if not isinstance(variable.source, StateSource) or variable.name in FIXED_NAMES:
            continue
        before = context.get(variable.name)
        fired = [
            _transition_value(each, found, variable.type)
            for each in variable.source.transitions
            if _guard_holds(each, before)
            and not _was_written_by_tool(variable, each, turn)
            and (found := each.trigger.fires(turn)) is not None
        ]
        if fired and not is_same_value(before, fired[-1]):  # of several that fire, the last one written holds
            changed[variable.name] = copy.deepcopy(fired[-1])
            context.set(variable.name, changed[variable.name])
    return changed


def _guard_holds(transition: Transition, value: Any) -> bool:
    return isinstance(transition.from_, Unset) or is_same_value(value, transition.from_)


def _was_written_by_tool(variable: Variable, transition: Transition, turn: TurnObservation) -> bool:
    return variable.name in turn.written_names and transition.trigger.type == "ui_response"


def _transition_value(transition: Transition, match: TriggerMatch, to: ValueType) -> Any:
    """Typed as the variable is, where there is one way to: an answer may say "true" and mean it."""
    if isinstance(transition.to, Unset):
        return coerce_or_keep(match.value, to)
    captured = captured_group(transition.to)
    return transition.to if captured is None else coerce_or_keep(match.groups[captured - 1], to)


_ENCODER = json.JSONEncoder(default=repr)  # `json.dumps` would make one for each value


def take_snapshot(context: Mapping[str, Any]) -> dict[str, str]:
    """How the context looks now. Text, since tools also change lists and mappings in place."""
    return {name: canonical_text(value) for name, value in context.items()}


def canonical_text(value: Any) -> str:
    try:
        return _ENCODER.encode(value)
    except (TypeError, ValueError, RecursionError):  # keys that are no text, cycles
        return repr(value)


def changes_since(snapshot_before: Mapping[str, str], after: Mapping[str, Any]) -> dict[str, Any]:
    """What a turn did to the context since the snapshot: new values by name, None for removed ones."""
    now = take_snapshot(after)
    written = {name: value for name, value in after.items() if snapshot_before.get(name) != now[name]}
    return written | {name: None for name in snapshot_before if name not in after}
