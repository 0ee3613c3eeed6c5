"""Package steps: lifecycle tools and hooks as loaded functions; their failures."""

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from workflows.chat.chat_errors import MAX_REASON_CHARACTERS, StepFailed
from workflows.chat.chat_state import Conversation, LiveTurn
from workflows.chat.package_code.bound_arguments import (
    CONTEXT_PARAMETER,
    ArgumentBinding,
    bind_by_name,
    bind_by_position,
)
from workflows.chat.package_code.incidents import Incident, append_own_line, make_incident
from workflows.chat.package_code.invocation import PackageCodeError, invoke
from workflows.chat.package_code.package_modules import PackageModules
from workflows.chat.questions.call_questions import PackageCall
from workflows.package.normal_form.package_model import ALL_AGENTS, Hook, HookKind, LifecycleTool, Moment, Package

log = logging.getLogger(__name__)

# What a lifecycle tool may take; for each hook, the arguments in AG2's order.
FACT_NAMES = ("app_id", "enterprise_id", "workflow_name", "run_id", "chat_id", "user_id")
FAILURE_NAMES = ("error_type", "error_message", "agent", "turn")  # of the error that failed the run, where known
LIFECYCLE_NAMES = (CONTEXT_PARAMETER, *FACT_NAMES, "execution_id", "agent_name", "error", "outcome", *FAILURE_NAMES)
HOOK_NAMES: Mapping[HookKind, tuple[str, ...]] = {
    "update_agent_state": ("agent", "messages"),
    "process_last_received_message": ("content", "sender"),
    "process_all_messages_before_reply": ("messages",),
    "process_message_before_send": ("sender", "message", "recipient", "silent"),
}


@dataclass(frozen=True, slots=True)
class PackageStep:
    """A loaded function.

    `label` is like `before_chat prepare.py:prepare`. `agent` None means every agent."""

    label: str
    name: str
    kind: Moment | HookKind
    agent: str | None
    function: Callable[..., Any]
    binding: ArgumentBinding

    async def call(self, arguments: Mapping[str, Any], chat: Conversation, *, timeout_s: float) -> Any:
        """Calls the function.

        PackageCodeError whatever it raises; NeedsHuman when it asks a person and no answer is there."""
        positional, keywords = self.binding.bind(arguments)
        # Questions bind to this step: its label and its ordinal in this turn, equal when the turn is repeated.
        counts = chat.step_counts if chat.current_turn is None else chat.current_turn.step_counts
        counts[self.label] += 1
        threads, call = (
            chat.built_package.threads,
            PackageCall(position=f"{self.label} {counts[self.label]}", chat=chat),
        )
        started = time.monotonic()
        try:
            result = await invoke(
                self.function, *positional, keywords=keywords, threads=threads, timeout_s=timeout_s, call=call
            )
        except PackageCodeError:
            self._measure(chat, started, failed=True)
            raise
        self._measure(chat, started, failed=False)
        return result

    def _measure(self, chat: Conversation, started: float, *, failed: bool) -> None:
        """Measures a lifecycle tool as a tool.

        One that fails at the end of a chat leaves the run succeeded."""
        if self.kind in get_args(Moment):
            chat.on_tool_call(self.name, time.monotonic() - started, failed)


def load_lifecycle(package: Package, modules: PackageModules) -> Mapping[Moment, tuple[PackageStep, ...]]:
    """Loads lifecycle tools. PackageDefect when a file cannot be loaded."""
    found: dict[Moment, list[PackageStep]] = {}
    for tool in package.lifecycle_tools:
        function = modules.load_function(tool.file, tool.function)
        step = PackageStep(
            _label(tool.moment, tool),
            tool.function,
            tool.moment,
            tool.agent,
            function,
            bind_by_name(function, LIFECYCLE_NAMES),
        )
        found.setdefault(tool.moment, []).append(step)
    return {moment: tuple(steps) for moment, steps in found.items()}


def load_hooks(package: Package, modules: PackageModules) -> Mapping[str, tuple[PackageStep, ...]]:
    """Loads hooks by agent, in file order. PackageDefect when a file fails to load."""
    loaded = [_load_hook(hook, modules) for hook in package.hooks]
    by_agent = {name: tuple(step for step in loaded if step.agent in (None, name)) for name in package.agents}
    return {name: steps for name, steps in by_agent.items() if steps}


def _load_hook(hook: Hook, modules: PackageModules) -> PackageStep:
    function = modules.load_function(hook.file, hook.function)
    by_keyword = hook.kind == "process_message_before_send"  # AG2 passes only this kind's arguments by name
    binding = bind_by_position(function, HOOK_NAMES[hook.kind], fills_varargs=not by_keyword)
    agent = None if hook.agent == ALL_AGENTS else hook.agent
    return PackageStep(_label(hook.kind, hook), hook.function, hook.kind, agent, function, binding)


def _label(kind: str, entry: LifecycleTool | Hook) -> str:
    return f"{kind} {entry.file.name}:{entry.function}"


async def run_in_turn(live: LiveTurn, step: PackageStep, arguments: Mapping[str, Any]) -> Any:
    """Runs a step in the turn.

    A failure becomes an incident of this turn and StepFailed."""
    try:
        return await step.call(arguments, live.chat, timeout_s=live.chat.timeouts.step_s)
    except PackageCodeError as raised:
        raise note_step_failure(
            live.chat, step, raised, note=live.note_incident, agent=live.agent, turn=live.number
        ) from raised.error


def check_parameters(steps: Iterable[PackageStep]) -> None:
    """Checks parameters before the first turn. StepFailed when one cannot be filled."""
    for step in steps:
        if step.binding.unknown:
            offered = ", ".join(LIFECYCLE_NAMES)
            missing = ", ".join(step.binding.unknown)
            raise StepFailed(f"{step.label} needs {missing}, which lifecycle tools do not get; available are {offered}")


def note_step_failure(
    chat: Conversation,
    step: PackageStep,
    code_error: PackageCodeError,
    *,
    note: Callable[[Incident], None],
    agent: str | None = None,
    turn: int | None = None,
) -> StepFailed:
    """Notes a failure and returns the error to raise; closing steps only note it."""
    error = code_error.error
    note(make_incident(error, where=step.label, agent=agent, turn=turn))
    extra = {"run_id": chat.fixed_values.get("run_id"), "step": step.label, "agent": agent, "turn": turn}
    log.warning("step_failed", extra={**extra, "error": type(error).__name__}, exc_info=error)
    of = "" if agent is None else f" of agent {agent} in turn {turn}"
    return StepFailed(
        chat.redactor.redact_text(f"{step.label}{of} failed: {append_own_line(str(code_error), error)}")[
            :MAX_REASON_CHARACTERS
        ]
    )
