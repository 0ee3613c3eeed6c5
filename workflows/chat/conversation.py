"""The conversation: turns of a headless chat, one after another, until an outcome.

Per turn: ask the agent (which calls its model and tools; usage is recorded before an answer is used), derive
variables from what was said, route, and hand the turn with a checkpoint to the caller, who makes it durable
before the next turn begins.
"""

import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ag2.stream import MemoryStream

from workflows.chat.agents import BuiltPackage
from workflows.chat.errors import ChatError, ModelError
from workflows.chat.meter import RunMeter, TurnMeter
from workflows.chat.package_tools import CONTEXT, REDACTOR
from workflows.chat.routing import Router, ending
from workflows.chat.transcript import Turn, recorded, seen_by, storable, tool_results
from workflows.context.computing import recompute
from workflows.context.context_variables import ContextVariables
from workflows.context.derived import changes, derive, snapshot
from workflows.context.observing import TurnSeen
from workflows.context.redaction import Redactor, take_out
from workflows.context.rendering import render_exposed
from workflows.outcome import Outcome, OutcomeKind
from workflows.package.models import USER, Package

log = logging.getLogger(__name__)

DEFAULT_OPENING = "Begin."
OUT_OF_TIME = "the run's wall-clock limit is reached"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Where a chat stands after a turn: all that another worker needs besides the turns themselves."""

    turn: int
    next_agent: str | None
    context: Mapping[str, Any]


Commit = Callable[[int, Turn, Checkpoint], Awaitable[None]]


@dataclass(slots=True)
class Conversation:
    built: BuiltPackage
    context: ContextVariables
    suppressed: frozenset[str]
    meter: RunMeter
    opening: str
    turns: list[Turn] = field(default_factory=list)
    next_agent: str | None = None
    # Whose run it is. A tool that writes to these names finds them as they were after its turn.
    fixed: Mapping[str, Any] = field(default_factory=dict)
    redactor: Redactor = field(default_factory=Redactor)

    @property
    def package(self) -> Package:
        return self.built.package

    def kept(self) -> dict[str, Any]:
        """The context as it may be stored. What a tool's own thread writes after its turn is hidden there as well."""
        kept = ContextVariables(self.context.kept())
        take_out(kept, self.suppressed, self.redactor, fixed=self.fixed)
        return kept.data


async def converse(
    chat: Conversation,
    *,
    commit: Commit,
    stopping: Callable[[], bool],
    out_of_time: Callable[[], bool] = lambda: False,
) -> Outcome:
    """Takes turns until the chat ends, or until this worker is stopping, between two turns.

    `out_of_time` is asked beside the caller's cancellation, which a library under a turn may swallow.
    """
    router = Router(chat.package, chat.suppressed)
    end, agent = resume(chat, router)
    while end is None:
        if len(chat.turns) >= chat.package.orchestrator.limits.max_turns:
            return Outcome(OutcomeKind.MAX_TURNS, f"the limit of {len(chat.turns)} turns is reached")
        if out_of_time():
            return Outcome(OutcomeKind.TIMEOUT, OUT_OF_TIME)
        if stopping():
            return Outcome(OutcomeKind.HANDED_BACK, "this worker is stopping")
        speaker = skip_to_speaker(router, agent, chat)
        if isinstance(speaker, Outcome):
            return speaker
        end, agent = await take_turn(chat, router, speaker, commit)
    return end


def resume(chat: Conversation, router: Router) -> tuple[Outcome | None, str]:
    """Who is next: at the start the initial agent, or whom the rules of `user` choose. Or the end, when the last turn
    was one and its worker was lost before it could say so."""
    if not chat.turns and chat.next_agent is None and chat.package.orchestrator.initial_agent == USER:
        rule = router.before(USER, chat.context) or router.after(USER, chat.context)
        return ending(rule, chat.package, USER), rule.target if rule is not None else USER
    if not chat.turns or chat.next_agent is not None:
        return None, chat.next_agent or chat.package.orchestrator.initial_agent
    last = chat.turns[-1].agent
    rule = router.after(last, chat.context)
    return ending(rule, chat.package, last), rule.target if rule is not None else last


def skip_to_speaker(router: Router, agent: str, chat: Conversation) -> str | Outcome:
    """Follows pre-scope rules, which hand over before an agent says anything."""
    seen = {agent}
    while (rule := router.before(agent, chat.context)) is not None:
        end = ending(rule, chat.package, agent)
        if end is not None:
            return end
        agent = rule.target
        if agent in seen:
            return Outcome(OutcomeKind.LOOP_DETECTED, f"pre-scope rules hand over in a circle at {agent}")
        seen.add(agent)
    return agent


async def take_turn(chat: Conversation, router: Router, agent: str, commit: Commit) -> tuple[Outcome | None, str]:
    """One turn of `agent`; returns how the chat ends, if it does, and who is next."""
    before, started = snapshot(chat.context), time.perf_counter()
    number = len(chat.turns) + 1
    meter = TurnMeter(chat.meter, agent)
    try:
        text, events = await ask(chat, meter)
    except ChatError as error:
        return error.outcome(agent=agent, turn=number), agent
    text, events = chat.redactor.data((text, events))
    hide_again(chat, agent)
    restore_fixed(chat, agent)
    duration_s = round(time.perf_counter() - started, 6)
    derive(chat.package.variables.values(), chat.context, shown_by(chat, agent, text, events, duration_s=duration_s))
    recompute(chat.package, chat.context, chat.suppressed)
    rule = router.after(agent, chat.context)
    end = ending(rule, chat.package, agent)
    next_agent = None if end is not None or rule is None else rule.target
    context = chat.kept()
    turn = Turn(
        agent=agent,
        text=text,
        events=events,
        context_changes=changes(before, context),
        handoff=rule.target if rule is not None else None,
        tokens=meter.tokens,
        duration_s=duration_s,
    )
    await commit(number, turn, Checkpoint(number, next_agent, context))
    chat.turns.append(turn)
    return end, next_agent or agent


def shown_by(
    chat: Conversation, agent: str, text: str, events: Iterable[Mapping[str, Any]], *, duration_s: float
) -> TurnSeen:
    """From what is kept of the turns alone, so that another worker would derive the same."""
    return TurnSeen(
        agent=agent,
        text=text,
        tool_results=tool_results(events),
        turns_by_agent=Counter((*(turn.agent for turn in chat.turns), agent)),
        elapsed_s=sum(turn.duration_s for turn in chat.turns) + duration_s,
    )


def hide_again(chat: Conversation, agent: str) -> None:
    """A tool is Python and reads the environment itself: what it put into the context is taken out before anybody
    routes on it, stores it or shows it to a model."""
    names = take_out(chat.context, chat.suppressed, chat.redactor, fixed=chat.fixed)
    if names:
        extra = {"run_id": chat.fixed.get("run_id"), "agent": agent, "names": names}
        log.warning("environment_variables_purged", extra=extra)


def restore_fixed(chat: Conversation, agent: str) -> None:
    changed = [name for name, value in chat.fixed.items() if chat.context.get(name) != value]
    if changed:
        log.warning("fixed_names_restored", extra={"agent": agent, "names": changed})
        chat.context.update({name: chat.fixed[name] for name in changed})


async def ask(chat: Conversation, meter: TurnMeter) -> tuple[str, Sequence[Mapping[str, Any]]]:
    """AG2 for everything inside the turn, on a fresh stream that holds what this agent has seen."""
    agent = meter.agent
    history, question = seen_by(agent, chat.opening, chat.turns)
    stream = MemoryStream()
    await stream.history.replace(history)
    spec = chat.package.agents[agent]
    rendered = render_exposed(chat.package.exposed.get(agent, ()), chat.context)
    reply = await chat.built.agents[agent].ask(
        question,
        stream=stream,
        # An agent without a prompt gets a blank one: an empty tuple would mean "use your own".
        prompt=tuple(chat.redactor.text(part) for part in (spec.system_message, rendered) if part) or (" ",),
        dependencies={CONTEXT: chat.context, REDACTOR: chat.redactor, **meter.dependencies()},
    )
    if not (reply.body or "").strip():
        raise ModelError("the model sent an empty answer", transient=True)
    events = list(await stream.history.get_events())
    return storable(str(reply.body)), recorded(events[len(history) :])
