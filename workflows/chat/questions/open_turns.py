"""Open turns: how a turn comes to rest with questions, and how it is taken up again."""

import logging
from collections.abc import Iterator

from workflows.chat.chat_errors import PackageDefect
from workflows.chat.chat_state import Conversation, LiveTurn
from workflows.chat.history.journal import CallStep, Journal, OpenTurn
from workflows.chat.questions.question import Question
from workflows.package.normal_form.automatic_tools import automatic_tools, is_offered

log = logging.getLogger(__name__)


def begin_turn(chat: Conversation, agent: str) -> LiveTurn:
    """A new turn, or the open one with what is recorded of it."""
    live, resumed = LiveTurn(chat, agent, len(chat.turns) + 1), chat.open_turn
    chat.open_turn = None
    if resumed is not None:
        live.journal = Journal.resume(resumed)
    return live


async def save_resting_turn(live: LiveTurn) -> None:
    """Keeps the turn as it stands, and notes what it asks, in the order in which the model wrote the calls."""
    chat = live.chat
    recorded = {each for step in live.journal.steps if isinstance(step, CallStep) for each in step.incidents}
    await chat.save_open_turn(live.as_open_turn())
    chat.incidents.extend(each for each in live.incidents if each not in recorded)  # the others are kept with the turn
    chat.questions = sorted(live.questions, key=_sort_key)
    chat.is_resting = True


def _sort_key(question: Question) -> tuple[int, ...]:
    """Steps that no model called come first: they stand before the turn's calls, or alone."""
    parts = (question.position or "").split(".")
    return tuple(map(int, parts)) if all(part.isdigit() for part in parts) else ()


def resumed_speaker(chat: Conversation) -> str | None:
    """Whose open turn goes on: that was decided when it began. None when no turn is open, or it has to begin anew.

    PackageDefect when the package has lost what the turn consists of, and a call of it was made.
    """
    turn = chat.open_turn
    if turn is None:
        return None
    lost = _find_lost(chat, turn)
    if lost is None:
        return turn.agent
    made = [step.name for step in turn.steps if isinstance(step, CallStep) and not step.failed]
    if made:
        raise PackageDefect(
            f"the package has lost {lost} while turn {turn.number} waited for a person, and that turn has called"
            f" {', '.join(made)} already; put it back and replay the run, or discard it"
        )
    extra = {"run_id": chat.fixed_values.get("run_id"), "turn": turn.number, "lost": lost}
    log.warning("journal_dropped", extra=extra)
    chat.open_turn = None
    return None


def _find_lost(chat: Conversation, turn: OpenTurn) -> str | None:
    package = chat.package
    if turn.agent not in package.agents:
        return f"the agent {turn.agent}"
    offered = {tool.function for tool in package.tools if is_offered(package, turn.agent, tool)}
    offered |= {tool.function for tool in automatic_tools(package, turn.agent)}
    name = next((name for name in _used_tools(chat, turn) if name not in offered), None)
    return None if name is None else f"the tool {name}"


def _used_tools(chat: Conversation, turn: OpenTurn) -> Iterator[str]:
    """Those that have finished, and those that wait for a person; steps that no model called are not offered."""
    yield from (step.name for step in turn.steps if isinstance(step, CallStep))
    asked = (answer["question"] for answer in chat.tool_answers.values())
    yield from (each["function"] for each in asked if each["turn"] == turn.number and each.get("function"))
