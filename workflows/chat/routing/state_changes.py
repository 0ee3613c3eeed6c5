"""State changes outside of finished turns: at life cycle moments and on hand-offs."""

from workflows.chat.chat_state import Conversation
from workflows.chat.context_sanitizer import sanitize_context
from workflows.context.reads.computed_values import recompute_variables
from workflows.context.state.state_derivation import derive_states, take_snapshot
from workflows.context.state.state_transitions import HandoffEvent, LifecycleEvent, TurnObservation
from workflows.package.normal_form.package_model import Moment, Package
from workflows.package.normal_form.variable_sources import StateSource


def apply_moment(chat: Conversation, moment: Moment, *, agent: str | None = None) -> None:
    """Applies the states that wait for this moment, after its steps."""
    if _has_trigger_type(chat.package, "lifecycle"):
        sanitize_context(chat, source=agent or moment)
        _apply_observation(chat, TurnObservation("", "", moment=LifecycleEvent(moment, agent)))


def apply_handoff(chat: Conversation, source: str, target: str | None) -> None:
    """Applies the states that wait for this hand-off. None: no hand-off."""
    if target is not None and _has_trigger_type(chat.package, "handoff"):
        _apply_observation(chat, TurnObservation("", "", handoff=HandoffEvent(source, target)))


def apply_handoff_between_turns(chat: Conversation, source: str, target: str) -> None:
    """Applies a hand-off between two turns.

    The change belongs to the next turn, or to the end of the chat."""
    if _has_trigger_type(chat.package, "handoff"):
        chat.committed_snapshot = (
            take_snapshot(chat.context) if chat.committed_snapshot is None else chat.committed_snapshot
        )
        chat.pending_handoffs.append((source, target))
        apply_handoff(chat, source, target)


def _apply_observation(chat: Conversation, observation: TurnObservation) -> None:
    if derive_states(chat.package.variables.values(), chat.context, observation):
        recompute_variables(chat.package, chat.context, chat.suppressed_names)


def _has_trigger_type(package: Package, trigger_type: str) -> bool:
    """Checks whether any state waits for events of this type.

    Without one the context stays untouched."""
    sources = (variable.source for variable in package.variables.values())
    return any(
        transition.trigger.type == trigger_type
        for source in sources
        if isinstance(source, StateSource)
        for transition in source.transitions
    )
