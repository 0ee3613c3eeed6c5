"""Hooks: a package's functions that change what an agent is told and what it says.

The order and the arguments are those of classic AG2: the agent's state, the last message, all messages; then, once
it has answered, what it sends.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from workflows.chat.hook_results import UnfitError, fit_messages, fit_text
from workflows.chat.hooked_agent import MANAGER_OF_CHAT, HookedAgent, Named
from workflows.chat.invoking import RaisedError
from workflows.chat.live import LiveTurn
from workflows.chat.messages import GO_ON, Message
from workflows.chat.package_steps import Step, failed, take_in_turn
from workflows.chat.protecting import settle
from workflows.package.models import USER, HookKind


async def prepare(live: LiveTurn, system_message: str, messages: list[Message]) -> tuple[str, list[Message]]:
    """The prompt and the messages of this turn as the hooks leave them. StepFailed when one of them fails."""
    if live.agent not in live.chat.built.hooks:
        return system_message, messages
    agent = live.hooked = HookedAgent(live.chat.package.agents[live.agent], system_message, live.chat.context)
    for step in _steps(live, "update_agent_state"):
        await take_in_turn(live, step, {"agent": agent, "messages": messages})
        with _blamed(live, step):
            system_message, messages = _prompt_of(agent), fit_messages(messages)
    messages = await _process_last(live, messages)
    for step in _steps(live, "process_all_messages_before_reply"):
        returned = await take_in_turn(live, step, {"messages": messages})
        with _blamed(live, step):
            messages = fit_messages(messages if returned is None else returned)
    # The prompt and the transfers show variables, and cut long ones: a hidden value must be gone by then.
    settle(live.chat, after=live.agent)
    return system_message, messages


async def before_send(live: LiveTurn, text: str) -> str:
    """The reply as the hooks leave it. StepFailed when one of them fails. Who only hands over sends nothing."""
    steps = list(_steps(live, "process_message_before_send"))
    if not steps or not text.strip():
        return text
    others = {"sender": live.hooked, "recipient": Named(MANAGER_OF_CHAT), "silent": False}
    for step in steps:
        returned = await take_in_turn(live, step, {**others, "message": text})
        with _blamed(live, step):
            text = _content(returned, text, "what it returns")
    return text


async def _process_last(live: LiveTurn, messages: list[Message]) -> list[Message]:
    """The message that asks for this turn: of somebody else, or ours when nobody spoke since."""
    for step in _steps(live, "process_last_received_message"):
        if not messages or messages[-1]["role"] != "user":
            messages = [*messages, {"role": "user", "name": USER, "content": GO_ON}]
        last = messages[-1]
        offered = {"content": last["content"], "sender": Named(last.get("name", USER))}
        returned = await take_in_turn(live, step, offered)
        with _blamed(live, step):
            content = _content(returned, last["content"], "what it returns")
            messages = fit_messages([*messages[:-1], {**last, "content": content}])
    return messages


def _steps(live: LiveTurn, kind: HookKind) -> Iterator[Step]:
    return (step for step in live.chat.built.hooks.get(live.agent, ()) if step.kind == kind)


def _content(returned: Any, before: str, what: str) -> str:
    """Text, or a message that holds it; None keeps what was there."""
    content = returned.get("content") if isinstance(returned, Mapping) else returned
    return before if content is None else fit_text(content, what)


def _prompt_of(agent: HookedAgent) -> str:
    try:
        written = agent.system_message
    except (LookupError, TypeError) as error:
        raise UnfitError(f"the agent has no system message any more ({type(error).__name__})") from None
    return "" if written is None else fit_text(written, "the system message")


@contextmanager
def _blamed(live: LiveTurn, step: Step) -> Iterator[None]:
    """What a hook leaves may be any object, and refuse to be read. Nothing is awaited here, so that a CancelledError
    is the object's own."""
    try:
        yield
    except BaseException as error:
        words = str(error) if isinstance(error, UnfitError) else None
        raised = RaisedError(error, words)
        raise failed(live.chat, step, raised, note=live.note, agent=live.agent, turn=live.number) from error
