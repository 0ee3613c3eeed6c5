"""The registry of trigger types: each is a module beside this one, by its name."""

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from functools import cache

import workflows.context.observers as here
from workflows.context.state.state_transitions import StateTrigger
from workflows.package.readers.section import Section

# None when the trigger cannot be read; the reason is among the section's findings.
ReadTrigger = Callable[[Section], StateTrigger | None]


@cache
def trigger_types() -> Mapping[str, ReadTrigger]:
    names = sorted(module.name for module in pkgutil.iter_modules(here.__path__) if module.name != "registry")
    return {name: importlib.import_module(f"{here.__name__}.{name}").read for name in names}
