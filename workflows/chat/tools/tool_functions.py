"""Tool functions: package functions that take a model's and the run's arguments.

Every caller, for a model or for a structured reply, does:

    call, view = tool.new_call(position, arguments), CallContext(live.reply_context)
    result = await tool.call(call, runtime_arguments(live, view), threads)
    text = result_text(live, result)
    live.apply_changes(view.changes())

`arguments` use the names in `tool.parameters.published_names`; ToolRefused names in a sentence what does not fit. The
runtime arguments are everything that the run fills in itself; arguments of the same names are dropped. PackageCodeError
holds what the function raised. NeedsHuman ends the run, which waits for a person.
"""

import copy
import inspect
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from workflows.chat.chat_errors import MAX_REASON_CHARACTERS, NeedsHuman, ToolFailed
from workflows.chat.chat_state import LiveTurn
from workflows.chat.package_code.bound_arguments import CONTEXT_PARAMETER
from workflows.chat.package_code.incidents import Incident, make_incident
from workflows.chat.package_code.invocation import TOOL_TIMEOUT_S, PackageCodeError, invoke
from workflows.chat.package_code.package_modules import PackageModules
from workflows.chat.package_code.tool_threads import ToolThreads
from workflows.chat.questions.call_questions import PackageCall
from workflows.chat.tools.tool_parameters import ToolParameters, describe_errors, read_parameters
from workflows.context.context_variables import ContextVariables
from workflows.context.values.storable_values import storable_text
from workflows.context.values.value_text import shorten, to_text
from workflows.package.normal_form.package_model import OnError, Package, Tool

log = logging.getLogger(__name__)

MAX_RESULT_CHARACTERS = 100_000


class ToolRefused(Exception):  # noqa: N818 -- a sentence for the model, not a fault of this program
    """The model's arguments do not fit; the text asks the model for the right ones."""


@dataclass(frozen=True, slots=True)
class ToolFunction:
    name: str
    description: str
    function: Callable[..., Any]
    parameters: ToolParameters
    timeout_s: float = TOOL_TIMEOUT_S
    has_effects: bool = True
    needs_answer: bool = False  # of a user interface: useless without a person's answer
    on_error: OnError = "tell"

    def json_schema(self) -> dict[str, Any]:
        return self.parameters.json_schema()

    def new_call(self, position: str, arguments: Mapping[str, Any]) -> PackageCall:
        """Makes a call with its position, without arguments that the run supplies."""
        dropped = self.parameters.find_injected(arguments)
        if dropped:
            arguments = {name: value for name, value in arguments.items() if name not in dropped}
        return PackageCall(self.name, position, arguments, needs_answer=self.needs_answer)

    async def call(self, call: PackageCall, runtime: Mapping[str, Any], threads: ToolThreads) -> Any:
        try:
            positional, keywords = self.parameters.bind(copy.deepcopy(dict(call.arguments)), runtime)
        except ValidationError as error:
            raise ToolRefused(describe_errors(error)) from None
        except BaseException as error:  # noqa: BLE001 -- a validator of the package, which may raise anything
            raise PackageCodeError(error) from None
        return await invoke(
            self.function, *positional, keywords=keywords, threads=threads, timeout_s=self.timeout_s, call=call
        )


def runtime_arguments(live: LiveTurn, context: ContextVariables) -> dict[str, Any]:
    """Returns the values that a tool may request by parameter name, or as `**runtime`."""
    fixed = live.chat.fixed_values
    app_id = fixed.get("app_id")
    return {
        CONTEXT_PARAMETER: context,
        "turn_idempotency_key": live.idempotency_key,
        "app_id": app_id,
        "enterprise_id": app_id,
        "user_id": fixed.get("user_id"),
        "chat_id": fixed.get("chat_id"),
        "run_id": fixed.get("run_id"),
        "workflow_name": fixed.get("workflow_name", live.chat.package.name),
        "agent_name": live.agent,
    }


def result_text(live: LiveTurn, result: Any) -> str:
    """Returns a result as text for a model and the transcript.

    PackageCodeError when the object cannot be written as text."""
    try:
        text = to_text(result)
    except BaseException as error:  # noqa: BLE001 -- the package's object makes its own text
        raise PackageCodeError(error) from None
    text = storable_text(live.chat.redactor.redact_text(text))  # redacted before it is cut: half a value is not found
    return shorten(text, MAX_RESULT_CHARACTERS, f"… (cut, {len(text)} characters)")


def log_dropped_arguments(live: LiveTurn, tool: ToolFunction, arguments: Any) -> None:
    """Logs the names of arguments that a model sent in place of the run.

    Their values are not logged, since they may be anything."""
    names = tool.parameters.find_injected(arguments)
    if names:
        extra = {
            "run_id": live.chat.fixed_values.get("run_id"),
            "agent": live.agent,
            "tool": tool.name,
            "names": list(names),
        }
        log.info("injected_arguments_dropped", extra=extra)


def note_failure(live: LiveTurn, tool: str, error: BaseException) -> tuple[Incident, ...]:
    """Notes an incident. Returns it as stored, or nothing where the turn has too many."""
    known = len(live.incidents)
    live.note_incident(make_incident(error, where=f"tool {tool}", agent=live.agent, turn=live.number))
    extra = {
        "run_id": live.chat.fixed_values.get("run_id"),
        "agent": live.agent,
        "tool": tool,
        "error": type(error).__name__,
    }
    log.warning("tool_failed", extra=extra, exc_info=error)
    return tuple(live.incidents[known:])


def end_run(live: LiveTurn, tool: ToolFunction, reason: str) -> None:
    """Ends the run, for `on_error: fail`.

    This precedes a question of the same turn: a run that is to fail asks no person."""
    if live.stop_error is None or isinstance(live.stop_error, NeedsHuman):
        message = f"the tool {tool.name} of agent {live.agent} failed in turn {live.number}: {reason}"
        live.stop_error = ToolFailed(
            storable_text(live.chat.redactor.redact_text(message))[:MAX_REASON_CHARACTERS], tool=tool.name
        )


def load_tool_functions(package: Package, modules: PackageModules) -> dict[Tool, ToolFunction]:
    return {tool: load_tool_function(tool, modules) for tool in package.tools if tool.is_offered}


def load_tool_function(tool: Tool, modules: PackageModules) -> ToolFunction:
    function = modules.load_function(tool.file, tool.function)
    return ToolFunction(
        name=tool.function,
        description=tool.description or inspect.getdoc(function) or "",
        function=function,
        parameters=read_parameters(function, name=tool.function, file=tool.file.name),
        timeout_s=TOOL_TIMEOUT_S if tool.timeout_s is None else tool.timeout_s,
        has_effects=tool.has_effects,
        needs_answer=tool.kind != "Agent_Tool",
        on_error=tool.on_error,
    )
