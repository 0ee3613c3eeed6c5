"""Automatic tools: called with the fields of an agent's structured reply.

They finish and write their variables before the turn is routed. No model sees their failures, so a failure ends the
chat.
"""

import copy
import inspect
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import Field, create_model

from workflows.chat.chat_errors import MAX_REASON_CHARACTERS, StepFailed
from workflows.chat.chat_state import LiveTurn
from workflows.chat.history.turn_journal import CallStep
from workflows.chat.limits import guards
from workflows.chat.package_code.incidents import append_own_line
from workflows.chat.package_code.invocation import PackageCodeError
from workflows.chat.package_code.package_modules import PackageModules
from workflows.chat.questions.call_questions import PackageCall
from workflows.chat.tools.tool_call_record import measure_call, note_replayed_call, record_call
from workflows.chat.tools.tool_functions import (
    ToolFunction,
    ToolRefused,
    load_tool_function,
    note_failure,
    result_text,
    runtime_arguments,
)
from workflows.context.call_context import CallContext
from workflows.context.values.storable_values import storable_text
from workflows.package.normal_form.automatic_tools import automatic_tools
from workflows.package.normal_form.package_model import Package, Tool

OUTPUT_NAME = "structured_output"  # the name of the whole reply among the tool's context variables


def load_auto_tools(
    package: Package, modules: PackageModules, functions_by_tool: Mapping[Tool, ToolFunction]
) -> dict[str, tuple[ToolFunction, ...]]:
    """Loads them by agent, in file order. PackageDefect when one cannot be loaded."""
    functions = dict(functions_by_tool)
    found: dict[str, tuple[ToolFunction, ...]] = {}
    for agent in package.agents:
        tools = automatic_tools(package, agent)
        functions |= {tool: load_tool_function(tool, modules) for tool in tools if tool not in functions}
        if tools:
            found[agent] = tuple(_with_untyped_arguments(functions[tool]) for tool in tools)
    return found


def _with_untyped_arguments(tool: ToolFunction) -> ToolFunction:
    """Drops the `str` type of parameters without annotation.

    A model is asked for text there; a reply has types of its own."""
    signature = inspect.signature(tool.function).parameters
    known = tool.parameters.arguments
    fields: dict[str, Any] = {
        name: (Any, Field(alias=field.alias))
        for name, field in known.model_fields.items()
        if field.is_required() and signature[str(field.alias)].annotation is inspect.Parameter.empty
    }
    arguments = create_model(known.__name__, __base__=known, **fields) if fields else known
    return replace(tool, parameters=replace(tool.parameters, arguments=arguments))


async def call_auto_tools(live: LiveTurn, output: Any) -> Sequence[Mapping[str, Any]]:
    """Calls the agent's tools. StepFailed when one fails.

    Returns their turn events, in the shape of tools that a model called."""
    tools = live.chat.built_package.auto_tools.get(live.agent, ())
    if output is None or not tools:
        return ()
    guards.count_tool_calls(live, len(tools))
    calls, results = [], []
    for index, tool in enumerate(tools, start=1):
        call = {"id": f"auto_{live.number}_{index}", "name": tool.name}
        arguments = bind_reply(tool, output, agent=live.agent)
        calls.append({**call, "arguments": json.dumps(arguments, ensure_ascii=False)})
        # Stable: an edited package may list the tools in another order before the turn is resumed.
        position = f"auto.{tool.name}"
        step = live.journal.recorded_call(position)
        if step is None:
            step = await _call_recorded(live, tool.new_call(position, arguments), tool, output)
        else:
            live.apply_recorded(step)
            note_replayed_call(live, tool, calls[-1]["arguments"], step)
        results.append({**call, "text": step.text, **({} if tool.has_effects else {"effects": "none"})})
    return (
        {"text": None, "tool_calls": calls, "automatic": True},
        {"tool_results": results, "automatic": True},
    )


def bind_reply(tool: ToolFunction, output: Any, *, agent: str) -> dict[str, Any]:
    """Reads the parameters from a reply. StepFailed when a required one is missing."""
    fields = tool.parameters.arguments.model_fields.values()
    needed = {str(field.alias): field.is_required() for field in fields}
    fields_of_reply = output if isinstance(output, Mapping) else {}
    arguments = _match_fields(needed, fields_of_reply)
    wrapper = _find_wrapper(arguments, fields_of_reply)
    if wrapper is not None:
        arguments = {**_match_fields(needed, wrapper), **arguments}
    lacking = [name for name, is_needed in needed.items() if is_needed and name not in arguments]
    if lacking:
        present = ", ".join(list(map(str, fields_of_reply))[:20]) or "no fields"
        message = f"the automatic tool {tool.name} needs {', '.join(lacking)}, and the reply of {agent} has {present}"
        raise StepFailed(f"{message}; name the parameter like a field of the model, or give it a default")
    # A null field counts as missing where the parameter has a default.
    return {name: value for name, value in arguments.items() if value is not None or needed[name]}


def _find_wrapper(arguments: Mapping[str, Any], reply: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Finds the object around the fields, as in {"Verdict": {"paid": true}, "a": 1}.

    None if there are several such objects: none is guessed."""
    taken = {_normalize_name(name) for name in arguments}
    wrappers = [
        value for key, value in reply.items() if isinstance(value, Mapping) and _normalize_name(key) not in taken
    ]
    return wrappers[0] if len(wrappers) == 1 else None


def _match_fields(parameters: Mapping[str, bool], reply: Mapping[str, Any]) -> dict[str, Any]:
    """Matches names by letters: `PhasePlan`, `phase_plan`, `phasePlan` are equal."""
    # Of two equal ones, the first.
    by_word: dict[str, str] = {_normalize_name(key): key for key in reversed(list(reply))}
    keys = {name: name if name in reply else by_word.get(_normalize_name(name)) for name in parameters}
    return {name: reply[key] for name, key in keys.items() if key is not None}


def _normalize_name(name: str) -> str:
    return "".join(character for character in name.casefold() if character.isalnum()) or name


async def _call_recorded(live: LiveTurn, call: PackageCall, tool: ToolFunction, output: Any) -> CallStep:
    """Calls the tool and records the call.

    The tool finds the whole reply under `structured_output`; the package's own variable of that name stays unchanged.
    """
    view = CallContext({**live.chat.context.to_dict(), OUTPUT_NAME: copy.deepcopy(output)})
    written = json.dumps(call.arguments, ensure_ascii=False)
    try:
        with measure_call(live, tool, written) as span:
            text = result_text(
                live, await tool.call(call, runtime_arguments(live, view), live.chat.built_package.threads)
            )
            span.record_result(text)
    except ToolRefused as refused:
        raise _note_step_failure(live, tool, refused, str(refused)) from None
    except PackageCodeError as raised:
        raise _note_step_failure(live, tool, raised.error, append_own_line(str(raised), raised.error)) from None
    return await record_call(live, call, view, text=text, private_names=(OUTPUT_NAME,))


def _note_step_failure(live: LiveTurn, tool: ToolFunction, error: BaseException, reason: str) -> StepFailed:
    """Notes the failure and returns the error to raise."""
    note_failure(live, tool.name, error)
    message = f"the automatic tool {tool.name} of agent {live.agent} failed in turn {live.number}: {reason}"
    return StepFailed(storable_text(live.chat.redactor.redact_text(message))[:MAX_REASON_CHARACTERS], tool=tool.name)
