"""The manager of an AutoPattern: a model that chooses speakers without a rule."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ag2 import Agent

from workflows.chat.agents.output_schemas import OutputSchema
from workflows.chat.chat_errors import ModelError
from workflows.chat.chat_state import LiveTurn
from workflows.chat.model_call.fast_stream import FastStream
from workflows.chat.providers.model_registry import ModelRegistry
from workflows.context.values.storable_values import storable_text
from workflows.context.values.value_text import shorten
from workflows.package.normal_form.package_model import DEFAULT_MODEL, MANAGER, TERMINATE, USER, Package
from workflows.package.normal_form.package_model import Agent as AgentSpec
from workflows.package.normal_form.structured_outputs import InlineModel, LiteralOf, OutputField, OutputModel

MAX_SHOWN_CONVERSATION = 20_000  # characters, the newest ones
MAX_TURN_TEXT = 4_000  # of one turn
MAX_DESCRIPTION = 400
MAX_ANSWER = 2_000
SCHEMA_REFUSED_STATUSES = frozenset({400, 422})  # of servers that do not support schemas of answers
_ANSWER = "next_speaker"
_QUOTES = " \t\r\n\"'`*.:[]"


@dataclass(frozen=True, slots=True)
class SpeakerManager:
    """The manager. `choices` are the agents in file order, and the end of the chat."""

    agent: Agent
    prompt: str
    choices: tuple[str, ...]
    schema: OutputSchema


def build_manager(package: Package, models: ModelRegistry) -> SpeakerManager | None:
    """Builds the manager.

    None where there is no choice: in another pattern, or with a single agent."""
    if package.orchestrator.pattern != "AutoPattern" or len(package.agents) < 2:
        return None
    choices, config = (*package.agents, TERMINATE), models.get(DEFAULT_MODEL)
    body = InlineModel({"next": OutputField(LiteralOf(choices), "Who speaks next")})
    schema = OutputSchema({_ANSWER: OutputModel(_ANSWER, body)}, _ANSWER, config.provider)
    return SpeakerManager(Agent(MANAGER, config=config), _build_prompt(package), choices, schema)


def _build_prompt(package: Package) -> str:
    agents = "\n".join(f"- {name}: {_describe_agent(spec)}" for name, spec in package.agents.items())
    return (
        f"You lead a conversation of these agents:\n{agents}\n\n"
        "Read the conversation and choose the agent that should speak next, by what is still to be done and by what"
        f" each agent is for. Choose {TERMINATE} when the task is done and nobody has anything to add."
        f" Answer with exactly one name of the list, or {TERMINATE}."
    )


def _describe_agent(spec: AgentSpec) -> str:
    description = " ".join((spec.description or spec.system_message).split())
    return shorten(description, MAX_DESCRIPTION)


async def ask_manager(manager: SpeakerManager, live: LiveTurn, text: str) -> str:
    """Returns an agent's name or `terminate`.

    ModelError when neither of two answers names one."""
    question = _build_question(live, text)
    answer = await _ask_with_fallback(manager, live, question)
    chosen = find_choice(answer, manager.choices)
    if chosen is None:
        again = f"{question}\n\nYou answered: {answer[:200]!r}. Answer with one of: {', '.join(manager.choices)}"
        answer = await _ask_with_fallback(manager, live, again)
        chosen = find_choice(answer, manager.choices)
    if chosen is None:
        shown = live.chat.redactor.redact_text(answer)[:100]
        raise ModelError(f"{MANAGER} named no agent of the package, but {shown!r}", transient=False)
    return chosen


async def _ask_with_fallback(manager: SpeakerManager, live: LiveTurn, question: str) -> str:
    """Asks with a schema of the names; without it if the server refuses schemas."""
    try:
        return await _ask(manager, live, question, manager.schema)
    except ModelError as error:
        if getattr(error.__cause__, "status_code", None) not in SCHEMA_REFUSED_STATUSES:
            raise
        return await _ask(manager, live, question, None)


async def _ask(manager: SpeakerManager, live: LiveTurn, question: str, schema: OutputSchema | None) -> str:
    redact = live.chat.redactor.redact_text
    live.asker_override = MANAGER  # until the turn ends: no other model is called in it any more
    reply = await manager.agent.ask(
        redact(question), stream=FastStream(), prompt=(redact(manager.prompt),), response_schema=schema
    )
    return storable_text(reply.body or "")[:MAX_ANSWER]


def _build_question(live: LiveTurn, turn_text: str) -> str:
    spoken = [
        (USER, live.chat.opening_message),
        *((turn.agent, turn.text) for turn in live.chat.turns),
        (live.agent, turn_text),
    ]
    lines: list[str] = []
    remaining = MAX_SHOWN_CONVERSATION
    for name, text in reversed(spoken):
        line = f"[{name}]: {text[:MAX_TURN_TEXT]}"
        remaining -= len(line)
        if remaining < 0:
            lines.append("[…]")
            break
        if text.strip():
            lines.append(line)
    return "\n\n".join([*reversed(lines), f"{live.agent} has spoken last. Who speaks next?"])


def find_choice(answer: str, choices: Sequence[str]) -> str | None:
    """Finds the one choice that an answer names: alone, in JSON, or in a sentence."""
    texts = [answer, *_json_strings(answer)]
    for text in texts:
        for choice in choices:
            if text.strip(_QUOTES).lower() == choice.lower():
                return choice
    longest_first = "|".join(re.escape(choice) for choice in sorted(choices, key=len, reverse=True))
    found = set(re.findall(rf"(?<![\w-])(?:{longest_first})(?![\w-])", answer))
    return found.pop() if len(found) == 1 else None


def _json_strings(answer: str) -> Iterable[str]:
    try:
        value: Any = json.loads(answer)
    except (ValueError, RecursionError):
        return ()
    values = list(value.values()) if isinstance(value, Mapping) else [value]
    return [text for text in values if isinstance(text, str)]
