"""State derivation: changes state variables by a turn, before it is routed."""

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
    """Applies the transitions that fire; returns the changed values.

    A turn moves a variable one step, however many guards it would pass one after another. Applied again, it changes
    nothing more, unless a guard distinguishes the two times."""
    changed: dict[str, Any] = {}
    for variable in variables:
        if not isinstance(variable.source, StateSource) or variable.name in FIXED_NAMES:
            continue
        before = context.get(variable.name)
        fired = [
            _transition_value(transition, found, variable.type)
            for transition in variable.source.transitions
            if _guard_holds(transition, before)
            and not _was_written_by_tool(variable, transition, turn)
            and (found := transition.trigger.fires(turn)) is not None
        ]
        if fired and not is_same_value(before, fired[-1]):  # of several that fire, the last one in the file wins
            changed[variable.name] = copy.deepcopy(fired[-1])
            context.set(variable.name, changed[variable.name])
    return changed


def _guard_holds(transition: Transition, value: Any) -> bool:
    return isinstance(transition.from_, Unset) or is_same_value(value, transition.from_)


def _was_written_by_tool(variable: Variable, transition: Transition, turn: TurnObservation) -> bool:
    return variable.name in turn.written_names and transition.trigger.type == "ui_response"


def _transition_value(transition: Transition, match: TriggerMatch, value_type: ValueType) -> Any:
    """Converts to the variable's type where that is unambiguous: "true" may mean true."""
    if isinstance(transition.to, Unset):
        return coerce_or_keep(match.value, value_type)
    captured = captured_group(transition.to)
    return transition.to if captured is None else coerce_or_keep(match.groups[captured - 1], value_type)


_ENCODER = json.JSONEncoder(default=repr)  # `json.dumps` would make one for each value


def take_snapshot(context: Mapping[str, Any]) -> dict[str, str]:
    """Captures the context as text, since tools change lists and mappings in place."""
    return {name: canonical_text(value) for name, value in context.items()}


def canonical_text(value: Any) -> str:
    try:
        return _ENCODER.encode(value)
    except (TypeError, ValueError, RecursionError):  # keys that are no text, cycles
        return repr(value)


def changes_since(snapshot_before: Mapping[str, str], after: Mapping[str, Any]) -> dict[str, Any]:
    """Returns changes since the snapshot: new values by name, None for removed ones."""
    now = take_snapshot(after)
    changed = {name: value for name, value in after.items() if snapshot_before.get(name) != now[name]}
    return changed | {name: None for name in snapshot_before if name not in after}
