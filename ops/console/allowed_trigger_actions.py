"""Orders on a trigger: which of them it takes as it stands, and what each of them does, in the words of its page."""

from collections.abc import Mapping, Sequence
from typing import Any

from ops.console.allowed_run_actions import ConsoleAction

_PAUSE = ConsoleAction(
    "pause",
    "Pause",
    "Nothing more starts by it until somebody resumes it. Calls to a paused webhook or form are told to come back "
    "later; times and changes that pass meanwhile start nothing. Runs that have started go on.",
)
_RESUME = ConsoleAction("resume", "Resume", "It starts runs again from now on.")
_FIRE = ConsoleAction(
    "fire",
    "Fire",
    "A run starts now, as if what it waits for had happened. Its model calls cost, and what its tools do is real.",
)
TRIGGER_ACTIONS: Mapping[str, ConsoleAction] = {each.name: each for each in (_PAUSE, _RESUME, _FIRE)}


def possible_trigger_actions(trigger: Mapping[str, Any]) -> Sequence[ConsoleAction]:
    """Also a trigger that is paused may be fired: whoever fires it by hand means it."""
    is_stopped = (
        trigger["state"] == "paused" or trigger["paused_apps"] or trigger["outlook"].get("state") == "suspended"
    )
    first = (_RESUME,) if is_stopped else ()
    second = (_PAUSE,) if trigger["state"] != "paused" else ()
    return (*first, *second, _FIRE)
