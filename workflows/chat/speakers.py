"""Speakers: who is next after a turn, by the package's rules first and by its pattern where none applies."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from workflows.chat.live import Conversation, LiveTurn
from workflows.chat.manager import ask_manager
from workflows.chat.routing import Router, ending
from workflows.context.facts import cache_seed
from workflows.outcome import Outcome, OutcomeKind
from workflows.package.models import TERMINATE


@dataclass(frozen=True, slots=True)
class Decision:
    """Either the chat ends or somebody is next. `handoff` is what the transcript says of it."""

    ended: Outcome | None
    next_agent: str | None
    handoff: str | None


async def decide(live: LiveTurn, router: Router, said: str) -> Decision:
    """`said`: the text of this turn, which is not among the chat's turns yet."""
    chat = live.chat
    rule = live.transfer or router.after(live.agent, chat.context)
    if rule is None:
        return await _by_pattern(live, router, said)
    ended = ending(rule, chat.package, live.agent)
    return Decision(ended, None if ended is not None else rule.target, rule.target)


async def _by_pattern(live: LiveTurn, router: Router, said: str) -> Decision:
    chat, names = live.chat, tuple(live.chat.package.agents)
    match chat.package.orchestrator.pattern:
        case "RoundRobinPattern":
            return _next(_following(names, live.agent) or names[0])
        case "RandomPattern":
            return _next(_drawn(chat, live, names))
        case "AutoPattern":
            return await _by_manager(live, said)
        case "Pipeline" if not router.has_rules(live.agent):
            following = _following(names, live.agent)
            return _next(following) if following is not None else _end(f"{live.agent} is the last of the pipeline")
    return Decision(ending(None, chat.package, live.agent, chat.turns), None, None)


async def _by_manager(live: LiveTurn, said: str) -> Decision:
    manager = live.chat.built.manager
    if manager is None:
        return _end(f"{live.agent} is the only agent")
    chosen = await ask_manager(manager, live, said)
    return Decision(_ended("the manager ends the chat"), None, TERMINATE) if chosen == TERMINATE else _next(chosen)


def _following(names: Sequence[str], agent: str) -> str | None:
    return next(iter(names[names.index(agent) + 1 :]), None)


def _drawn(chat: Conversation, live: LiveTurn, names: Sequence[str]) -> str:
    """Nobody twice in a row while there are others. The same again when the turn is taken again."""
    seed = cache_seed(*(str(chat.context.get(name, "")) for name in ("app_id", "chat_id")))
    draw = random.Random(f"{seed}:{live.number}")  # noqa: S311 -- it decides on a speaker, not on a secret
    return draw.choice([name for name in names if name != live.agent] or names)


def _next(agent: str) -> Decision:
    return Decision(None, agent, agent)


def _end(reason: str) -> Decision:
    return Decision(_ended(reason), None, None)


def _ended(reason: str) -> Outcome:
    return Outcome(OutcomeKind.COMPLETED, reason)
