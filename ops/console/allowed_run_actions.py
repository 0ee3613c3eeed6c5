"""Orders on a run: which of them it takes in its state, and what each of them does, in the words of its page."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ops.console.visitor import Visitor
from workers.store.run import RunState

Story = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ConsoleAction:
    """`does` is said before it is done; `is_end`: it cannot be taken back; `is_approval`: only a key that may approve
    does it."""

    name: str
    label: str
    effect: str
    is_final: bool = False
    is_approval: bool = False


_CANCEL_TEXT = "It ends at once as cancelled, and no agent speaks any more. This cannot be taken back."
_REPLAY = ConsoleAction(
    "replay",
    "Replay",
    "What this run was asked to do is asked once more, from its first turn, as a new run with the same input. Its "
    "model calls cost again, and people are asked again for what they have answered. Asked for twice, it starts one "
    "run.",
)
_CANCEL = ConsoleAction("cancel", "Cancel", _CANCEL_TEXT, is_final=True)
_CANCEL_RUNNING = ConsoleAction(
    "cancel",
    "Cancel",
    "Its worker is asked to stop, closes the chat with its next heartbeat and ends the run as cancelled. What its "
    "tools have done stays done. This cannot be taken back.",
    is_final=True,
)
_DISCARD = ConsoleAction(
    "discard",
    "Discard",
    "The run is given up and ends as cancelled; its turns and its outcome stay to be read. This cannot be taken back.",
    is_final=True,
    is_approval=True,
)
_RETRY_NOW = ConsoleAction("retry-now", "Retry now", "The run does not wait for its time any more: it is due at once.")
_ANSWER = ConsoleAction(
    "answer",
    "Answer",
    "An answer is for the question above it and for no other call. When each question has its answer, the run goes on "
    "where it stands.",
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
    """Those that the visitor's key may give. A session that may answer has the forms on the page of the run itself."""
    if not visitor.may_write:
        return []
    orders = [order for order in possible_run_actions(run) if visitor.may_approve or not order.is_approval]
    return [order for order in orders if not (visitor.may_act and order is _ANSWER)]


def possible_run_actions(run: Story) -> list[ConsoleAction]:
    orders = list(_ACTIONS_BY_STATE.get(run["state"], ()))  # a newer version may know other states
    if run["state"] == RunState.QUEUED and run.get("not_before") and not run.get("hold"):
        orders.insert(0, _RETRY_NOW)
    return orders
