"""Persistent states: values of state variables that outlive a run.

The next run of the workflow in the same app reads them. A variable with `persist: true` begins with the value of the
last successful run. By its `persist_key` the value belongs to one user, to one chat, or to the whole app.
"""

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from workflows.context.redaction import HIDDEN
from workflows.context.run_facts import FIXED_NAMES, RunFacts
from workflows.context.values.type_coercion import MisfitError, coerce
from workflows.context.values.value_text import to_text
from workflows.context.values.value_types import is_one_of
from workflows.package.normal_form.package_model import Package, Variable
from workflows.package.normal_form.variable_sources import StateSource

log = logging.getLogger(__name__)

APP_WIDE_KEY = "none"


@dataclass(frozen=True, slots=True)
class StateKey:
    """The key of a stored value.

    `key` is the run's user or chat; empty where the app has one value."""

    app_id: str
    workflow: str
    variable: str
    key_name: str
    key: str


@dataclass(frozen=True, slots=True)
class PersistentState:
    state_key: StateKey
    value: Any


ReadStates = Callable[[Collection[StateKey]], Awaitable[Mapping[str, Any]]]
"""Returns the stored values by variable, without those that have none."""


async def read_no_states(_keys: Collection[StateKey]) -> Mapping[str, Any]:
    return {}


def state_keys(package: Package, facts: Mapping[str, Any]) -> dict[str, StateKey]:
    """Returns the key of each persistent variable.

    A run without a user has no key for a user's value."""
    keys: dict[str, StateKey] = {}
    for name, variable in package.variables.items():
        source = variable.source
        if not isinstance(source, StateSource) or source.persist_key is None or name in FIXED_NAMES:
            continue
        owner = "" if source.persist_key == APP_WIDE_KEY else facts.get(source.persist_key)
        if owner is None:
            extra = {"run_id": facts["run_id"], "variable": name, "key": source.persist_key}
            log.info("state_without_key", extra=extra)
        else:
            keys[name] = StateKey(facts["app_id"], package.name, name, source.persist_key, str(owner))
    return keys


async def load_states(
    package: Package, facts: RunFacts, supplied: Collection[str], read: ReadStates
) -> Mapping[str, Any]:
    """Returns the stored values, except of variables that this run was supplied with."""
    keys = state_keys(package, facts.base_values())
    keys_to_read = [key for name, key in keys.items() if name not in supplied]
    if not keys_to_read:
        return {}
    stored = await read(keys_to_read)
    fitting = {name: _coerce_value(package.variables[name], value) for name, value in stored.items()}
    for name in (name for name, fits in fitting.items() if fits is None):
        log.warning("kept_state_not_used", extra={"run_id": facts.run_id, "variable": name})
    return {name: fits[0] for name, fits in fitting.items() if fits is not None}


def _coerce_value(variable: Variable, value: Any) -> tuple[Any] | None:
    """Converts a value to the type declared now; None where it no longer fits."""
    try:
        fitted = coerce(value, variable.type)
    except MisfitError:
        return None
    is_allowed = not variable.enum or fitted is None or is_one_of(fitted, variable.enum)
    return (fitted,) if is_allowed else None


def changed_states(
    package: Package, facts: Mapping[str, Any], changed: Collection[str], context: Mapping[str, Any]
) -> tuple[PersistentState, ...]:
    """Returns the states that a successful run stores: those that it changed."""
    keys = state_keys(package, facts) if changed else {}
    states = [PersistentState(key, context[name]) for name, key in keys.items() if name in changed and name in context]
    hidden = [state.state_key.variable for state in states if HIDDEN in to_text(state.value)]
    if hidden:
        log.warning("hidden_value_not_kept", extra={"run_id": facts["run_id"], "names": hidden})
    return tuple(state for state in states if state.state_key.variable not in hidden)
