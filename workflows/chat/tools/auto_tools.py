"""Automatic tools: those of an agent that are called with what its structured reply says.

They have finished, and have written their variables, before anybody routes on this turn. No model is there to hear
that one of them failed, so then the chat ends.
"""

import copy
import inspect
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import Field, create_model

from workflows.chat.chat_errors import StepFailed
from workflows.chat.chat_state import LiveTurn
from workflows.chat.history.journal import CallStep
from workflows.chat.limits import guards
from workflows.chat.package_code.incidents import append_own_line
from workflows.chat.package_code.invocation import PackageCodeError
from workflows.chat.package_code.package_modules import PackageModules
from workflows.chat.questions.package_call import PackageCall
from workflows.chat.tools.tool_call_record import measure_call, note_replayed_call, record_call
from workflows.chat.tools.tool_functions import (
    MAX_REASON_CHARACTERS,
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

OUTPUT_NAME = "structured_output"  # under which a tool finds the whole reply among the context variables


def load_auto_tools(
    package: Package, modules: PackageModules, functions_by_tool: Mapping[Tool, ToolFunction]
) -> dict[str, tuple[ToolFunction, ...]]:
    """By agent, in the order of the file. PackageDefect when one cannot be loaded."""
    functions = dict(functions_by_tool)
    found: dict[str, tuple[ToolFunction, ...]] = {}
    for agent in package.agents:
        tools = automatic_tools(package, agent)
        functions |= {tool: load_tool_function(tool, modules) for tool in tools if tool not in functions}
        if tools:
            found[agent] = tuple(_with_untyped_arguments(functions[tool]) for tool in tools)
    return found


def _with_untyped_arguments(tool: ToolFunction) -> ToolFunction:
    """A model is told to send text for a parameter without a type. A reply has types of its own."""
    written = inspect.signature(tool.function).parameters
    known = tool.parameters.arguments
    fields: dict[str, Any] = {
        name: (Any, Field(alias=each.alias))
        for name, each in known.model_fields.items()
        if each.is_required() and written[str(each.alias)].annotation is inspect.Parameter.empty
    }
    arguments = create_model(known.__name__, __base__=known, **fields) if fields else known
    return replace(tool, parameters=replace(tool.parameters, arguments=arguments))


async def call_auto_tools(live: LiveTurn, output: Any) -> Sequence[Mapping[str, Any]]:
    """What they add to the turn's events, shaped like tools that a model called. StepFailed when one fails."""
    tools = live.chat.built_package.auto_tools.get(live.agent, ())
    if output is None or not tools:
        return ()
    guards.count_tool_calls(live, len(tools))
    calls, results = [], []
    for index, tool in enumerate(tools, start=1):
        call = {"id": f"auto_{live.number}_{index}", "name": tool.name}
        arguments = bind_reply(tool, output, agent=live.agent)
        calls.append({**call, "arguments": json.dumps(arguments, ensure_ascii=False)})
        position = f"auto.{tool.name}"  # an edited package may have them in another order when the turn goes on
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
    """What the reply says, by the parameters' names. StepFailed when it lacks one that is needed."""
    fields = tool.parameters.arguments.model_fields.values()
    needed = {str(each.alias): each.is_required() for each in fields}
    said = output if isinstance(output, Mapping) else {}
    given = _match_fields(needed, said)
    wrapper = _find_wrapper(given, said)
    if wrapper is not None:
        given = {**_match_fields(needed, wrapper), **given}
    lacking = [name for name, is_needed in needed.items() if is_needed and name not in given]
    if lacking:
        has = ", ".join(list(map(str, said))[:20]) or "no fields"
        message = f"the automatic tool {tool.name} needs {', '.join(lacking)}, and the reply of {agent} has {has}"
        raise StepFailed(f"{message}; name the parameter like a field of the model, or give it a default")
    # A field that may be null says nothing then, and a parameter with a default stands for that.
    return {name: value for name, value in given.items() if value is not None or needed[name]}


def _find_wrapper(arguments: Mapping[str, Any], reply: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The one object around what is meant, as in {"Verdict": {"refund": true}, "agent_message": "done"}. Of several
    that no parameter asks for, none is guessed."""
    taken = {_normalize_name(name) for name in arguments}
    left = [value for key, value in reply.items() if isinstance(value, Mapping) and _normalize_name(key) not in taken]
    return left[0] if len(left) == 1 else None


def _match_fields(parameters: Mapping[str, bool], reply: Mapping[str, Any]) -> dict[str, Any]:
    """`PhasePlan`, `phase_plan` and `phasePlan` are one word."""
    by_word: dict[str, str] = {
        _normalize_name(key): key for key in reversed(list(reply))
    }  # of two that read alike, the first
    keys = {name: name if name in reply else by_word.get(_normalize_name(name)) for name in parameters}
    return {name: reply[key] for name, key in keys.items() if key is not None}


def _normalize_name(name: str) -> str:
    return "".join(each for each in name.casefold() if each.isalnum()) or name


async def _call_recorded(live: LiveTurn, call: PackageCall, tool: ToolFunction, output: Any) -> CallStep:
    """The tool sees the whole reply under `structured_output`; what an author keeps under that name stays as it is."""
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
    """What is raised, after it is noted."""
    note_failure(live, tool.name, error)
    message = f"the automatic tool {tool.name} of agent {live.agent} failed in turn {live.number}: {reason}"
    return StepFailed(storable_text(live.chat.redactor.redact_text(message))[:MAX_REASON_CHARACTERS], tool=tool.name)
