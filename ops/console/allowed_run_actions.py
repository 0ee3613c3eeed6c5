"""Actions on a run that its state and the visitor's key allow, with the text that explains each."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ops.console.visitor import Visitor
from workers.store.run import RunState

Story = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ConsoleAction:
    """`effect` is the text of the confirmation page.

    A final action cannot be undone; an approval needs a key that may approve.
    """

    name: str
    label: str
    effect: str
    is_final: bool = False
    is_approval: bool = False


_CANCEL_TEXT = "The run ends at once as cancelled. This cannot be undone."
_REPLAY = ConsoleAction(
    "replay",
    "Replay",
    "Starts a new run with the same input, from the first turn. Its model calls cost again, and people have to answer "
    "again. A second replay of the same run starts no further run.",
)
_CANCEL = ConsoleAction("cancel", "Cancel", _CANCEL_TEXT, is_final=True)
_CANCEL_RUNNING = ConsoleAction(
    "cancel",
    "Cancel",
    "The worker ends the run as cancelled with its next heartbeat. Effects of its tools remain. This cannot be undone.",
    is_final=True,
)
_DISCARD = ConsoleAction(
    "discard",
    "Discard",
    "The run ends as cancelled; its turns and its outcome remain visible. This cannot be undone.",
    is_final=True,
    is_approval=True,
)
_RETRY_NOW = ConsoleAction("retry-now", "Retry now", "The next attempt of the run is due at once.")
_ANSWER = ConsoleAction(
    "answer",
    "Answer",
    "An answer applies only to the question above it. The run continues from its checkpoint once each question has an "
    "answer.",
    is_approval=True,
)

_ACTIONS_BY_STATE: Mapping[str, tuple[ConsoleAction, ...]] = {
    RunState.QUEUED: (_CANCEL,),
    RunState.RUNNING: (_CANCEL_RUNNING,),
    RunState.PARKED: (_REPLAY, _DISCARD),
    RunState.NEEDS_HUMAN: (_ANSWER, _DISCARD),
    RunState.SUCCEEDED: (_REPLAY,),
    RunState.FAILED: (_REPLAY,),
    RunState.CANCELLED: (_REPLAY,),
}


def allowed_run_actions(run: Story, visitor: Visitor) -> list[ConsoleAction]:
    """Return the actions that the visitor's key allows, except Answer where the run's page has the forms itself."""
    if not visitor.may_write:
        return []
    actions = [action for action in possible_run_actions(run) if visitor.may_approve or not action.is_approval]
    return [action for action in actions if not (visitor.may_act and action is _ANSWER)]


def possible_run_actions(run: Story) -> list[ConsoleAction]:
    actions = list(_ACTIONS_BY_STATE.get(run["state"], ()))  # a newer version may know other states
    if run["state"] == RunState.QUEUED and run.get("not_before") and not run.get("hold"):
        actions.insert(0, _RETRY_NOW)
    return actions
