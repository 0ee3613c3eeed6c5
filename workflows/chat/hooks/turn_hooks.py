"""Hooks: a package's functions that change an agent's input and its reply.

Order and arguments are those of classic AG2: the agent's state, the last message, all messages; after the answer, what
is sent.
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

CHAT_MANAGER = "chat_manager"  # the recipient's name in AG2's group chats


class HookedAgent:
    """The agent as hooks see it.

    Its system message becomes the prompt of this turn. Hooks may set attributes of their own on it."""

    def __init__(self, spec: Agent, system_message: str, context: ContextVariables) -> None:
        self.name = spec.name
        self.description = spec.description
        self.llm_config: dict[str, Any] = {}
        self._context = context
        # The form in which AG2 stores it; some hooks change it in place.
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
        """Returns the live variables."""
        return self._context

    @context_variables.setter
    def context_variables(self, values: Any) -> None:
        if values is not self._context:
            self._context.update(values)

    _context_variables = context_variables

    def __repr__(self) -> str:
        return f"HookedAgent({self.name})"


class ChatParticipant:
    """The sender or the recipient of a message, for hooks."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return self.name


async def run_reply_hooks(live: LiveTurn, system_message: str, messages: list[Message]) -> tuple[str, list[Message]]:
    """Runs the hooks before the reply.

    Returns the prompt and the messages of this turn. StepFailed when a hook fails."""
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
    # The prompt and the transfers show variables and cut long ones, so hidden values must be removed first.
    sanitize_and_recompute(live.chat, source=live.agent)
    return system_message, messages


async def run_send_hooks(live: LiveTurn, text: str) -> str:
    """Runs the hooks on a reply and returns it. StepFailed when a hook fails.

    A turn that only hands over sends nothing."""
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
    """Runs the hooks on the last message: another speaker's, or our own request."""
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
    """Returns text, also from a message; None keeps the default."""
    content = returned.get("content") if isinstance(returned, Mapping) else returned
    return default if content is None else check_text(content, subject)


def _read_prompt(agent: HookedAgent) -> str:
    try:
        written = agent.system_message
    except (LookupError, TypeError) as error:
        raise UnfitError(f"the agent no longer has a system message ({type(error).__name__})") from None
    return "" if written is None else check_text(written, "the system message")


@contextmanager
def _attribute_errors(live: LiveTurn, step: PackageStep) -> Iterator[None]:
    """Turns errors in reading a hook's result into StepFailed.

    A hook may leave any object, also one that cannot be read. Nothing is awaited here, so a CancelledError is the
    object's own."""
    try:
        yield
    except BaseException as error:
        message = str(error) if isinstance(error, UnfitError) else None
        raised = PackageCodeError(error, message)
        raise note_step_failure(
            live.chat, step, raised, note=live.note_incident, agent=live.agent, turn=live.number
        ) from error
