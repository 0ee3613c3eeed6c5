"""Open turns: how a turn rests with questions, and how it is resumed."""

import logging
from collections.abc import Iterator

from workflows.chat.chat_errors import PackageDefect
from workflows.chat.chat_state import Conversation, LiveTurn
from workflows.chat.history.turn_journal import CallStep, Journal, OpenTurn
from workflows.chat.questions.question import Question
from workflows.package.normal_form.automatic_tools import automatic_tools, is_offered

log = logging.getLogger(__name__)


def begin_turn(chat: Conversation, agent: str) -> LiveTurn:
    """Begins a new turn, or resumes the open one with its record."""
    live, resumed = LiveTurn(chat, agent, len(chat.turns) + 1), chat.open_turn
    chat.open_turn = None
    if resumed is not None:
        live.journal = Journal.resume(resumed)
    return live


async def save_resting_turn(live: LiveTurn) -> None:
    """Saves a turn that waits for a person.

    Notes its questions in the order in which the model wrote the calls."""
    chat = live.chat
    recorded = {incident for step in live.journal.steps if isinstance(step, CallStep) for incident in step.incidents}
    await chat.save_open_turn(live.as_open_turn())
    # The others are stored with the turn.
    chat.incidents.extend(incident for incident in live.incidents if incident not in recorded)
    chat.questions = sorted(live.questions, key=_sort_key)
    chat.is_resting = True


def _sort_key(question: Question) -> tuple[int, ...]:
    """Sorts questions by position; steps that no model called come first.

    Such steps precede the turn's calls, or stand alone."""
    parts = (question.position or "").split(".")
    return tuple(map(int, parts)) if all(part.isdigit() for part in parts) else ()


def resumed_speaker(chat: Conversation) -> str | None:
    """Returns the agent whose open turn continues.

    None when no turn is open, or it has to begin anew. PackageDefect when the package has lost a part of the turn, and
    the turn has made a call."""
    turn = chat.open_turn
    if turn is None:
        return None
    lost = _find_lost(chat, turn)
    if lost is None:
        return turn.agent
    called = [step.name for step in turn.steps if isinstance(step, CallStep) and not step.failed]
    if called:
        raise PackageDefect(
            f"the package has lost {lost} while turn {turn.number} waited for a person, and that turn has called"
            f" {', '.join(called)} already; put it back and replay the run, or discard it"
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
    """Yields the finished tools and those that wait for a person.

    Steps that no model called are not offered as tools."""
    yield from (step.name for step in turn.steps if isinstance(step, CallStep))
    questions = (answer["question"] for answer in chat.tool_answers.values())
    yield from (
        question["function"] for question in questions if question["turn"] == turn.number and question.get("function")
    )
