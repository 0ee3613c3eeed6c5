"""Package steps: lifecycle tools and hooks as loaded functions, and what becomes of their failures."""

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from workflows.chat.context_parameters import CONTEXT
from workflows.chat.errors import StepFailed
from workflows.chat.incidents import Incident, incident_of, with_place
from workflows.chat.invoking import RaisedError, invoke
from workflows.chat.live import Conversation, LiveTurn
from workflows.chat.passing import Passing, by_name, by_position
from workflows.chat.people import Call
from workflows.chat.tool_modules import PackageModules
from workflows.package.models import ALL_AGENTS, Hook, HookKind, LifecycleTool, Moment, Package

log = logging.getLogger(__name__)

STEP_TIMEOUT_S = 60.0
MAX_REASON = 1_000

# What a lifecycle tool may take, and each hook in the order in which AG2 passes it.
FACTS = ("app_id", "enterprise_id", "workflow_name", "run_id", "chat_id", "user_id")
FAILURE = ("error_type", "error_message", "agent", "turn")  # of what made the run fail, where that is known
LIFECYCLE_NAMES = (CONTEXT, *FACTS, "execution_id", "agent_name", "error", "outcome", *FAILURE)
HOOK_NAMES: Mapping[HookKind, tuple[str, ...]] = {
    "update_agent_state": ("agent", "messages"),
    "process_last_received_message": ("content", "sender"),
    "process_all_messages_before_reply": ("messages",),
    "process_message_before_send": ("sender", "message", "recipient", "silent"),
}


@dataclass(frozen=True, slots=True)
class Step:
    """`label`: `before_chat prepare.py:prepare`. `agent`: None means every agent."""

    label: str
    name: str
    kind: Moment | HookKind
    agent: str | None
    function: Callable[..., Any]
    passing: Passing

    async def call(self, offered: Mapping[str, Any], chat: Conversation, *, timeout_s: float) -> Any:
        """What it returns. RaisedError whatever it raises; NeedsHuman when it asks for a person in vain."""
        positional, keywords = self.passing.of(offered)
        # A person is asked by this step, the n-th of its label in this turn: so it asks the same when taken again.
        counts = chat.begun if chat.speaking is None else chat.speaking.step_calls
        counts[self.label] += 1
        threads, call = chat.built.threads, Call(position=f"{self.label} {counts[self.label]}", chat=chat)
        began = time.monotonic()
        try:
            result = await invoke(
                self.function, *positional, keywords=keywords, threads=threads, timeout_s=timeout_s, call=call
            )
        except RaisedError:
            self._measure(chat, began, failed=True)
            raise
        self._measure(chat, began, failed=False)
        return result

    def _measure(self, chat: Conversation, began: float, *, failed: bool) -> None:
        """As a tool: a lifecycle tool that fails at the end of a chat leaves the run succeeded."""
        if self.kind in get_args(Moment):
            chat.on_tool_call(self.name, time.monotonic() - began, failed)


def load_lifecycle(package: Package, modules: PackageModules) -> Mapping[Moment, tuple[Step, ...]]:
    """PackageDefect when a file cannot be loaded."""
    found: dict[Moment, list[Step]] = {}
    for tool in package.lifecycle_tools:
        function = modules.function(tool.file, tool.function)
        step = Step(
            _label(tool.moment, tool),
            tool.function,
            tool.moment,
            tool.agent,
            function,
            by_name(function, LIFECYCLE_NAMES),
        )
        found.setdefault(tool.moment, []).append(step)
    return {moment: tuple(steps) for moment, steps in found.items()}


def load_hooks(package: Package, modules: PackageModules) -> Mapping[str, tuple[Step, ...]]:
    """By agent, in the order in which they are written. PackageDefect when a file cannot be loaded."""
    loaded = [_hook_step(hook, modules) for hook in package.hooks]
    by_agent = {name: tuple(step for step in loaded if step.agent in (None, name)) for name in package.agents}
    return {name: steps for name, steps in by_agent.items() if steps}


def _hook_step(hook: Hook, modules: PackageModules) -> Step:
    function = modules.function(hook.file, hook.function)
    by_keyword = hook.kind == "process_message_before_send"  # AG2 names what it passes to this kind only
    passing = by_position(function, HOOK_NAMES[hook.kind], starred=not by_keyword)
    agent = None if hook.agent == ALL_AGENTS else hook.agent
    return Step(_label(hook.kind, hook), hook.function, hook.kind, agent, function, passing)


def _label(kind: str, written: LifecycleTool | Hook) -> str:
    return f"{kind} {written.file.name}:{written.function}"


async def take_in_turn(live: LiveTurn, step: Step, offered: Mapping[str, Any]) -> Any:
    """What the step returns. StepFailed when it fails, and an incident of this turn."""
    try:
        return await step.call(offered, live.chat, timeout_s=STEP_TIMEOUT_S)
    except RaisedError as raised:
        raise failed(live.chat, step, raised, note=live.note, agent=live.agent, turn=live.number) from raised.error


def refuse_unknown(steps: Iterable[Step]) -> None:
    """StepFailed: better before the first turn than at the end of the chat."""
    for step in steps:
        if step.passing.unknown:
            offered = ", ".join(LIFECYCLE_NAMES)
            missing = ", ".join(step.passing.unknown)
            raise StepFailed(f"{step.label} needs {missing}, which no lifecycle tool is given; there are {offered}")


def failed(
    chat: Conversation,
    step: Step,
    raised: RaisedError,
    *,
    note: Callable[[Incident], None],
    agent: str | None = None,
    turn: int | None = None,
) -> StepFailed:
    """What is raised, after it is noted; the closing of a chat only notes it."""
    error = raised.error
    note(incident_of(error, where=step.label, agent=agent, turn=turn))
    extra = {"run_id": chat.fixed.get("run_id"), "step": step.label, "agent": agent, "turn": turn}
    log.warning("step_failed", extra={**extra, "error": type(error).__name__}, exc_info=error)
    of = "" if agent is None else f" of agent {agent} in turn {turn}"
    return StepFailed(chat.redactor.text(f"{step.label}{of} failed: {with_place(str(raised), error)}")[:MAX_REASON])
