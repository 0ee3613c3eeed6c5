"""Hooks: a package's functions that change what an agent is told and what it says.

The order and the arguments are those of classic AG2: the agent's state, the last message, all messages; then, once
it has answered, what it sends.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from workflows.chat.chat_state import LiveTurn
from workflows.chat.context_sanitizer import sanitize_and_recompute
from workflows.chat.history.messages import CONTINUE_MESSAGE, Message
from workflows.chat.hooks.hook_results import UnfitError, check_messages, check_text
from workflows.chat.hooks.package_steps import PackageStep, note_step_failure, run_in_turn
from workflows.chat.package_code.invocation import PackageCodeError
from workflows.context.context_variables import ContextVariables
from workflows.package.normal_form.package_model import USER, Agent, HookKind

CHAT_MANAGER = "chat_manager"  # whom AG2's agents send to in a group chat


class HookedAgent:
    """Its system message is what this turn is asked with. Hooks may keep attributes of their own on it."""

    def __init__(self, spec: Agent, system_message: str, context: ContextVariables) -> None:
        self.name = spec.name
        self.description = spec.description
        self.llm_config: dict[str, Any] = {}
        self._context = context
        # The form in which AG2 keeps it; hooks that know it change it in place.
        self._oai_system_message: list[dict[str, Any]] = [{"role": "system", "content": system_message}]

    @property
    def system_message(self) -> Any:
        return self._oai_system_message[0]["content"]

    @system_message.setter
    def system_message(self, text: Any) -> None:
        self._oai_system_message[:] = [{"role": "system", "content": text}]

    _system_message = system_message

    def update_system_message(self, system_message: str) -> None:
        self.system_message = system_message

    @property
    def context_variables(self) -> ContextVariables:
        """The live ones."""
        return self._context

    @context_variables.setter
    def context_variables(self, values: Any) -> None:
        if values is not self._context:
            self._context.update(values)

    _context_variables = context_variables

    def __repr__(self) -> str:
        return f"HookedAgent({self.name})"


class ChatParticipant:
    """Who else hooks are told of: the sender of a message, its recipient."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return self.name


async def run_reply_hooks(live: LiveTurn, system_message: str, messages: list[Message]) -> tuple[str, list[Message]]:
    """The prompt and the messages of this turn as the hooks leave them. StepFailed when one of them fails."""
    if live.agent not in live.chat.built_package.hooks:
        return system_message, messages
    agent = live.hooked_agent = HookedAgent(live.chat.package.agents[live.agent], system_message, live.chat.context)
    for step in _hooks_of_kind(live, "update_agent_state"):
        await run_in_turn(live, step, {"agent": agent, "messages": messages})
        with _attribute_errors(live, step):
            system_message, messages = _read_prompt(agent), check_messages(messages)
    messages = await _process_last_message(live, messages)
    for step in _hooks_of_kind(live, "process_all_messages_before_reply"):
        returned = await run_in_turn(live, step, {"messages": messages})
        with _attribute_errors(live, step):
            messages = check_messages(messages if returned is None else returned)
    # The prompt and the transfers show variables, and cut long ones: a hidden value must be gone by then.
    sanitize_and_recompute(live.chat, source=live.agent)
    return system_message, messages


async def run_send_hooks(live: LiveTurn, text: str) -> str:
    """The reply as the hooks leave it. StepFailed when one of them fails. Who only hands over sends nothing."""
    steps = list(_hooks_of_kind(live, "process_message_before_send"))
    if not steps or not text.strip():
        return text
    others = {"sender": live.hooked_agent, "recipient": ChatParticipant(CHAT_MANAGER), "silent": False}
    for step in steps:
        returned = await run_in_turn(live, step, {**others, "message": text})
        with _attribute_errors(live, step):
            text = _read_content(returned, text, "what it returns")
    return text


async def _process_last_message(live: LiveTurn, messages: list[Message]) -> list[Message]:
    """The message that asks for this turn: of somebody else, or ours when nobody spoke since."""
    for step in _hooks_of_kind(live, "process_last_received_message"):
        if not messages or messages[-1]["role"] != "user":
            messages = [*messages, {"role": "user", "name": USER, "content": CONTINUE_MESSAGE}]
        last = messages[-1]
        offered = {"content": last["content"], "sender": ChatParticipant(last.get("name", USER))}
        returned = await run_in_turn(live, step, offered)
        with _attribute_errors(live, step):
            content = _read_content(returned, last["content"], "what it returns")
            messages = check_messages([*messages[:-1], {**last, "content": content}])
    return messages


def _hooks_of_kind(live: LiveTurn, kind: HookKind) -> Iterator[PackageStep]:
    return (step for step in live.chat.built_package.hooks.get(live.agent, ()) if step.kind == kind)


def _read_content(returned: Any, default: str, subject: str) -> str:
    """Text, or a message that holds it; None keeps what was there."""
    content = returned.get("content") if isinstance(returned, Mapping) else returned
    return default if content is None else check_text(content, subject)


def _read_prompt(agent: HookedAgent) -> str:
    try:
        written = agent.system_message
    except (LookupError, TypeError) as error:
        raise UnfitError(f"the agent has no system message any more ({type(error).__name__})") from None
    return "" if written is None else check_text(written, "the system message")


@contextmanager
def _attribute_errors(live: LiveTurn, step: PackageStep) -> Iterator[None]:
    """What a hook leaves may be any object, and refuse to be read. Nothing is awaited here, so that a CancelledError
    is the object's own."""
    try:
        yield
    except BaseException as error:
        words = str(error) if isinstance(error, UnfitError) else None
        raised = PackageCodeError(error, words)
        raise note_step_failure(
            live.chat, step, raised, note=live.note_incident, agent=live.agent, turn=live.number
        ) from error
