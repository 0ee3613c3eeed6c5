"""Automatic tools: those of an agent that are called with what its structured reply says.

They have finished, and have written their variables, before anybody routes on this turn. No model is there to hear
that one of them failed, so then the chat ends.
"""

import asyncio
import copy
import inspect
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from pydantic import Field, create_model

from workflows.chat import guards
from workflows.chat.errors import ChatError, StepFailed
from workflows.chat.incidents import incident_of, words_of
from workflows.chat.invoking import TimedOutError
from workflows.chat.live import LiveTurn
from workflows.chat.tool_functions import MAX_RESULT, ToolFunction, ToolRefused, runtime_of, tool_function
from workflows.chat.tool_modules import PackageModules
from workflows.chat.transcript import storable
from workflows.context.context_variables import ContextVariables
from workflows.context.rendering import as_text
from workflows.package.automatic import automatic_tools
from workflows.package.models import Package, Tool

log = logging.getLogger(__name__)

OUTPUT_NAME = "structured_output"  # under which a tool finds the whole reply among the context variables
MAX_REASON = 1_000
_ABSENT = object()


def load_auto_tools(
    package: Package, modules: PackageModules, loaded: Mapping[Tool, ToolFunction]
) -> dict[str, tuple[ToolFunction, ...]]:
    """By agent, in the order of the file. PackageDefect when one cannot be loaded."""
    functions = dict(loaded)
    found: dict[str, tuple[ToolFunction, ...]] = {}
    for agent in package.agents:
        tools = automatic_tools(package, agent)
        functions |= {tool: tool_function(tool, modules) for tool in tools if tool not in functions}
        if tools:
            found[agent] = tuple(_taking_anything(functions[tool]) for tool in tools)
    return found


def _taking_anything(tool: ToolFunction) -> ToolFunction:
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
    tools = live.chat.built.auto_tools.get(live.agent, ())
    if output is None or not tools:
        return ()
    guards.count_tool_calls(live, len(tools))
    calls, results = [], []
    for index, tool in enumerate(tools, start=1):
        call = {"id": f"auto_{live.number}_{index}", "name": tool.name}
        arguments = arguments_for(tool, output, agent=live.agent)
        calls.append({**call, "arguments": json.dumps(arguments, ensure_ascii=False)})
        with _shown(live.chat.context, copy.deepcopy(output)):
            results.append({**call, "text": await _call(live, tool, copy.deepcopy(arguments))})
    return (
        {"text": None, "tool_calls": calls, "automatic": True},
        {"tool_results": results, "automatic": True},
    )


def arguments_for(tool: ToolFunction, output: Any, *, agent: str) -> dict[str, Any]:
    """What the reply says, by the parameters' names. StepFailed when it lacks one that is needed."""
    fields = tool.parameters.arguments.model_fields.values()
    needed = {str(each.alias): each.is_required() for each in fields}
    said = output if isinstance(output, Mapping) else {}
    given = _matching(needed, said)
    inside = next(iter(said.values())) if len(said) == 1 else None
    if not given and isinstance(inside, Mapping):  # an object around what is meant: {"Verdict": {"refund": true}}
        given = _matching(needed, inside)
    lacking = [name for name, is_needed in needed.items() if is_needed and name not in given]
    if lacking:
        has = ", ".join(list(map(str, said))[:20]) or "no fields"
        message = f"the automatic tool {tool.name} needs {', '.join(lacking)}, and the reply of {agent} has {has}"
        raise StepFailed(f"{message}; name the parameter like a field of the model, or give it a default")
    # A field that may be null says nothing then, and a parameter with a default stands for that.
    return {name: value for name, value in given.items() if value is not None or needed[name]}


def _matching(parameters: Mapping[str, bool], said: Mapping[str, Any]) -> dict[str, Any]:
    """`PhasePlan`, `phase_plan` and `phasePlan` are one word."""
    by_word: dict[str, str] = {_word(key): key for key in reversed(list(said))}  # of two that read alike, the first
    keys = {name: name if name in said else by_word.get(_word(name)) for name in parameters}
    return {name: said[key] for name, key in keys.items() if key is not None}


def _word(name: str) -> str:
    return "".join(each for each in name.casefold() if each.isalnum()) or name


async def _call(live: LiveTurn, tool: ToolFunction, arguments: Mapping[str, Any]) -> str:
    task = asyncio.current_task()
    earlier = 0 if task is None else task.cancelling()
    try:
        result = _told(live, await tool.call(arguments, runtime_of(live), live.chat.built.threads))
    except ChatError:  # it needs a person
        raise
    except (ToolRefused, TimedOutError) as error:
        raise _failed(live, tool, error, str(error)) from None
    except asyncio.CancelledError as error:
        if task is not None and task.cancelling() > earlier:
            raise
        raise _failed(live, tool, error, "it cancelled itself") from None
    except BaseException as error:  # a package's tool may raise anything, and the process goes on
        if isinstance(error, GeneratorExit) and _running_task() is not task:
            raise  # nobody raised it: the run itself is closed, and may await no more
        raise _failed(live, tool, error, f"{type(error).__name__}: {words_of(error)}") from None
    if live.stop is not None:
        raise live.stop
    return result


def _failed(live: LiveTurn, tool: ToolFunction, error: BaseException, words: str) -> Exception:
    """What is raised, after it is noted; why the chat must not go on comes before what a tool made of it."""
    live.note(incident_of(error, where=f"tool {tool.name}", agent=live.agent, turn=live.number))
    extra = {"run_id": live.chat.fixed.get("run_id"), "agent": live.agent, "tool": tool.name}
    log.warning("tool_failed", extra={**extra, "error": type(error).__name__}, exc_info=error)
    message = f"the automatic tool {tool.name} of agent {live.agent} failed in turn {live.number}: {words}"
    return live.stop or StepFailed(storable(live.chat.redactor.text(message))[:MAX_REASON])


def _told(live: LiveTurn, result: Any) -> str:
    text = storable(live.chat.redactor.text(as_text(result)))
    return text if len(text) <= MAX_RESULT else f"{text[:MAX_RESULT]}… (cut, {len(text)} characters)"


@contextmanager
def _shown(context: ContextVariables, output: Any) -> Iterator[None]:
    """For as long as a tool runs: what an author keeps under this name is there again afterwards."""
    kept = context.get(OUTPUT_NAME, _ABSENT)
    context[OUTPUT_NAME] = output
    try:
        yield
    finally:
        if kept is _ABSENT:
            context.remove(OUTPUT_NAME)
        else:
            context[OUTPUT_NAME] = kept


def _running_task() -> "asyncio.Task[Any] | None":
    try:
        return asyncio.current_task()
    except RuntimeError:  # no loop runs: it is closed by the garbage collector
        return None
