"""The next speaker after a turn: by the package's rules, else by its pattern."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from workflows.chat.chat_state import Conversation, LiveTurn
from workflows.chat.routing.router import Router, end_outcome
from workflows.chat.routing.speaker_manager import ask_manager
from workflows.context.run_facts import cache_seed
from workflows.outcome import Outcome, OutcomeKind
from workflows.package.normal_form.package_model import TERMINATE


@dataclass(frozen=True, slots=True)
class SpeakerDecision:
    """Either the chat ends or another agent is next.

    `handoff` is the hand-off in the transcript."""

    end_outcome: Outcome | None
    next_agent: str | None
    handoff: str | None


async def decide_speaker(live: LiveTurn, router: Router, text: str) -> SpeakerDecision:
    """Decides after a turn.

    `text` is the text of this turn, which is not among the chat's turns yet."""
    chat = live.chat
    rule = live.transfer or router.rule_after(live.agent, chat.context)
    if rule is None:
        return await _decide_by_pattern(live, router, text)
    ended = end_outcome(rule, chat.package, live.agent)
    return SpeakerDecision(ended, None if ended is not None else rule.target, rule.target)


async def _decide_by_pattern(live: LiveTurn, router: Router, text: str) -> SpeakerDecision:
    chat, names = live.chat, tuple(live.chat.package.agents)
    match chat.package.orchestrator.pattern:
        case "RoundRobinPattern":
            return _continue_with(_agent_after(names, live.agent) or names[0])
        case "RandomPattern":
            return _continue_with(_draw_agent(chat, live, names))
        case "AutoPattern":
            return await _decide_by_manager(live, text)
        case "Pipeline" if not router.has_rules(live.agent):
            following = _agent_after(names, live.agent)
            return (
                _continue_with(following)
                if following is not None
                else _end_with(f"{live.agent} is the last of the pipeline")
            )
    return SpeakerDecision(end_outcome(None, chat.package, live.agent, chat.turns), None, None)


async def _decide_by_manager(live: LiveTurn, text: str) -> SpeakerDecision:
    manager = live.chat.built_package.manager
    if manager is None:
        return _end_with(f"{live.agent} is the only agent")
    chosen = await ask_manager(manager, live, text)
    return (
        SpeakerDecision(_completed_outcome("the manager ends the chat"), None, TERMINATE)
        if chosen == TERMINATE
        else _continue_with(chosen)
    )


def _agent_after(names: Sequence[str], agent: str) -> str | None:
    return next(iter(names[names.index(agent) + 1 :]), None)


def _draw_agent(chat: Conversation, live: LiveTurn, names: Sequence[str]) -> str:
    """Draws another agent than the last, the same one when the turn is repeated."""
    seed = cache_seed(*(str(chat.context.get(name, "")) for name in ("app_id", "chat_id")))
    draw = random.Random(f"{seed}:{live.number}")  # noqa: S311 -- it draws a speaker, not a secret
    return draw.choice([name for name in names if name != live.agent] or names)


def _continue_with(agent: str) -> SpeakerDecision:
    return SpeakerDecision(None, agent, agent)


def _end_with(reason: str) -> SpeakerDecision:
    return SpeakerDecision(_completed_outcome(reason), None, None)


def _completed_outcome(reason: str) -> Outcome:
    return Outcome(OutcomeKind.COMPLETED, reason)
