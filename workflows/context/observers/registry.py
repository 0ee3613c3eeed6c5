"""The registry of trigger types: every module beside this one is one, under its own name."""

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from functools import cache

import workflows.context.observers as here
from workflows.context.state.state_transitions import StateTrigger
from workflows.package.readers.section import Section

# None when the trigger cannot be read; why is among the section's findings then.
ReadTrigger = Callable[[Section], StateTrigger | None]


@cache
def trigger_types() -> Mapping[str, ReadTrigger]:
    names = sorted(each.name for each in pkgutil.iter_modules(here.__path__) if each.name != "registry")
    return {name: importlib.import_module(f"{here.__name__}.{name}").read for name in names}
