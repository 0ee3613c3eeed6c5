"""Actions on a trigger that its state allows, with the text that explains each."""

from collections.abc import Mapping, Sequence
from typing import Any

from ops.console.allowed_run_actions import ConsoleAction

_PAUSE = ConsoleAction(
    "pause",
    "Pause",
    "The trigger starts no runs until it is resumed. Webhooks and forms answer 503, so that senders retry later; "
    "schedule times and changes during the pause are skipped. Runs that have started continue.",
)
_RESUME = ConsoleAction("resume", "Resume", "The trigger starts runs again from now on.")
_FIRE = ConsoleAction(
    "fire",
    "Fire",
    "A run starts now, as if the trigger's event had occurred. Its model calls cost, and its tools have real effects.",
)
TRIGGER_ACTIONS: Mapping[str, ConsoleAction] = {action.name: action for action in (_PAUSE, _RESUME, _FIRE)}


def possible_trigger_actions(trigger: Mapping[str, Any]) -> Sequence[ConsoleAction]:
    """Offer Fire for paused triggers too: it is deliberate."""
    is_suspended = trigger["outlook"].get("state") == "suspended"
    is_stopped = trigger["state"] == "paused" or trigger["paused_apps"] or is_suspended
    resume = (_RESUME,) if is_stopped else ()
    pause = (_PAUSE,) if trigger["state"] != "paused" else ()
    return (*resume, *pause, _FIRE)
