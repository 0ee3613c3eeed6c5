"""Tool functions: a package's plain Python functions, callable with what a model sends and what the run knows.

Whoever calls one, for a model or for a structured reply, does it so:

    call, view = tool.new_call(position, arguments), CallContext(live.found)
    result = await tool.call(call, runtime_of(live, view), threads)
    text = as_answer(live, result)
    live.apply(view.changes())

`arguments` are by the names in `tool.parameters.published`; ToolRefused says in a sentence what does not fit.
`runtime` is everything the run fills in by itself; what `arguments` have in its place is dropped. RaisedError says what
the function raised, NeedsHuman ends the run: it waits for a person.
"""

import copy
import inspect
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from workflows.chat.chat_errors import NeedsHuman, ToolFailed
from workflows.chat.chat_state import LiveTurn
from workflows.chat.package_code.argument_binding import CONTEXT_PARAMETER
from workflows.chat.package_code.incidents import Incident, make_incident
from workflows.chat.package_code.invocation import TOOL_TIMEOUT_S, PackageCodeError, invoke
from workflows.chat.package_code.package_modules import PackageModules
from workflows.chat.package_code.tool_threads import ToolThreads
from workflows.chat.questions.package_call import PackageCall
from workflows.chat.tools.tool_parameters import ToolParameters, describe_errors, read_parameters
from workflows.context.context_variables import ContextVariables
from workflows.context.values.storable_values import storable_text
from workflows.context.values.value_text import to_text
from workflows.package.normal_form.package_model import OnError, Package, Tool

log = logging.getLogger(__name__)

MAX_RESULT_CHARACTERS = 100_000
MAX_REASON_CHARACTERS = 1_000


class ToolRefused(Exception):  # noqa: N818 -- a sentence for the model, not a fault of this program
    """The model's arguments do not fit; the text tells the model what to send."""


@dataclass(frozen=True, slots=True)
class ToolFunction:
    name: str
    description: str
    function: Callable[..., Any]
    parameters: ToolParameters
    timeout_s: float = TOOL_TIMEOUT_S
    has_effects: bool = True
    needs_answer: bool = False  # of a user interface: it does nothing useful unless somebody answers
    on_error: OnError = "tell"

    def json_schema(self) -> dict[str, Any]:
        return self.parameters.json_schema()

    def new_call(self, position: str, arguments: Mapping[str, Any]) -> PackageCall:
        """A call bound to its position and its arguments, without those whose value the run gives."""
        dropped = self.parameters.find_injected(arguments)
        if dropped:
            arguments = {name: value for name, value in arguments.items() if name not in dropped}
        return PackageCall(self.name, position, arguments, needs_answer=self.needs_answer)

    async def call(self, call: PackageCall, runtime: Mapping[str, Any], threads: ToolThreads) -> Any:
        try:
            positional, keywords = self.parameters.bind(copy.deepcopy(dict(call.arguments)), runtime)
        except ValidationError as error:
            raise ToolRefused(describe_errors(error)) from None
        except BaseException as error:  # noqa: BLE001 -- a validator of the package's own, in whose words it is told
            raise PackageCodeError(error) from None
        return await invoke(
            self.function, *positional, keywords=keywords, threads=threads, timeout_s=self.timeout_s, call=call
        )


def runtime_arguments(live: LiveTurn, context: ContextVariables) -> dict[str, Any]:
    """What a tool of this turn may ask for by the name of a parameter, and what `**runtime` receives."""
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
    """What a tool returned, as text for a model and for the transcript. RaisedError when it refuses to be text."""
    try:
        text = to_text(result)
    except BaseException as error:  # noqa: BLE001 -- an object of the package's own writes itself
        raise PackageCodeError(error) from None
    text = storable_text(live.chat.redactor.redact_text(text))  # before it is cut: half a value is not found
    return (
        text if len(text) <= MAX_RESULT_CHARACTERS else f"{text[:MAX_RESULT_CHARACTERS]}… (cut, {len(text)} characters)"
    )


def log_dropped_arguments(live: LiveTurn, tool: ToolFunction, arguments: Any) -> None:
    """Logs the names of arguments that a model sent in place of the run. Their values may be anything."""
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
    """The incident as it is kept; none where the turn has too many."""
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
    """For `on_error: fail`. Goes before a question of the same turn: a run that is to fail asks no person."""
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
