"""State changes beside those of a finished turn: at moments of the life cycle, and when a hand-off is taken."""

from workflows.chat.live import Conversation
from workflows.chat.protecting import protect
from workflows.context.computing import recompute
from workflows.context.derived import derive, snapshot
from workflows.context.observing import PassedMoment, TakenHandoff, TurnSeen
from workflows.package.models import Moment, Package
from workflows.package.sources import StateSource


def pass_moment(chat: Conversation, moment: Moment, *, agent: str | None = None) -> None:
    """Applies what waits for this moment; its steps are over."""
    if _is_awaited(chat.package, "lifecycle"):
        protect(chat, after=agent or moment)
        _apply(chat, TurnSeen("", "", moment=PassedMoment(moment, agent)))


def take_handoff(chat: Conversation, source: str, target: str | None) -> None:
    """Applies what waits for this hand-off. None: nothing was handed over."""
    if target is not None and _is_awaited(chat.package, "handoff"):
        _apply(chat, TurnSeen("", "", handoff=TakenHandoff(source, target)))


def take_handoff_between_turns(chat: Conversation, source: str, target: str) -> None:
    """The same where no turn commits the change: it belongs to the next turn, or to the end of the chat."""
    if _is_awaited(chat.package, "handoff"):
        chat.unseen = snapshot(chat.context) if chat.unseen is None else chat.unseen
        chat.handoffs.append((source, target))
        take_handoff(chat, source, target)


def _apply(chat: Conversation, seen: TurnSeen) -> None:
    if derive(chat.package.variables.values(), chat.context, seen):
        recompute(chat.package, chat.context, chat.suppressed)


def _is_awaited(package: Package, trigger_type: str) -> bool:
    """Whether any state waits for events of this type. Without it the context stays untouched."""
    sources = (variable.source for variable in package.variables.values())
    return any(
        each.trigger.type == trigger_type
        for source in sources
        if isinstance(source, StateSource)
        for each in source.transitions
    )
