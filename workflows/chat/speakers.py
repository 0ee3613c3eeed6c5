"""Speakers: who is next after a turn, by the package's rules first and by its pattern where none applies."""

from dataclasses import dataclass

from workflows.chat.live import LiveTurn
from workflows.chat.routing import Router, ending
from workflows.outcome import Outcome


@dataclass(frozen=True, slots=True)
class Decision:
    """Either the chat ends or somebody is next. `handoff` is what the transcript says of it."""

    ended: Outcome | None
    next_agent: str | None
    handoff: str | None


async def decide(live: LiveTurn, router: Router) -> Decision:
    chat = live.chat
    rule = live.transfer or router.after(live.agent, chat.context)
    ended = ending(rule, chat.package, live.agent)
    handoff = None if rule is None else rule.target
    return Decision(ended, None if ended is not None else handoff, handoff)
