"""Tool functions: a package's plain Python functions, loaded by path, with the signature a model may see."""

import asyncio
import contextvars
import functools
import importlib.util
import inspect
import sys
import typing
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from workflows.chat.errors import PackageDefect
from workflows.context.context_variables import ContextVariables
from workflows.package.models import Package, Tool

INJECTED = "context_variables"
MAX_RESULT = 100_000


class ToolRefused(Exception):  # noqa: N818 -- a sentence for the model, not a fault of this program
    """The model's arguments do not fit; the text tells the model what to send."""


@dataclass(frozen=True, slots=True)
class ToolFunction:
    name: str
    description: str
    function: Callable[..., Any]
    arguments: type[BaseModel]
    wants_context: bool

    def json_schema(self) -> dict[str, Any]:
        schema = self.arguments.model_json_schema()
        schema.pop("title", None)
        return {"properties": {}, **schema}

    async def call(self, arguments: Mapping[str, Any], context: ContextVariables, threads: ThreadPoolExecutor) -> Any:
        try:
            valid = self.arguments.model_validate(dict(arguments))
        except ValidationError as error:
            raise ToolRefused(_sentence(error)) from None
        # Attributes, not a dump: nested models stay what the function's annotations promise.
        given = {name: getattr(valid, name) for name in type(valid).model_fields}
        if self.wants_context:
            given[INJECTED] = context
        if inspect.iscoroutinefunction(self.function):
            return await self.function(**given)
        bound = functools.partial(contextvars.copy_context().run, functools.partial(self.function, **given))
        return await asyncio.get_running_loop().run_in_executor(threads, bound)


def load_tool_functions(package: Package) -> dict[Tool, ToolFunction]:
    modules: dict[Path, ModuleType] = {}
    loaded = {}
    for tool in package.tools:
        if tool.file not in modules:
            modules[tool.file] = _load_module(package, tool.file)
        loaded[tool] = _tool_function(tool, modules[tool.file])
    return loaded


def _load_module(package: Package, file: Path) -> ModuleType:
    """Under a name unique to package and version: two versions of one tool live side by side."""
    name = f"unattended_package_{package.version}_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise PackageDefect(f"{file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and postponed annotations look their module up
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        sys.modules.pop(name, None)
        raise PackageDefect(f"{file.name} failed when it was loaded: {type(error).__name__}: {error}") from error
    return module


def _tool_function(tool: Tool, module: ModuleType) -> ToolFunction:
    function = getattr(module, tool.function, None)
    if not callable(function):
        raise PackageDefect(f"{tool.file.name} has no function {tool.function}")
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except (NameError, TypeError, AttributeError, SyntaxError) as error:
        raise PackageDefect(f"{tool.file.name}: the annotations of {tool.function} cannot be read: {error}") from None
    parameters = inspect.signature(function).parameters
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    fields: dict[str, Any] = {
        name: (_annotation(hints.get(name, _unannotated(each))), ... if each.default is each.empty else each.default)
        for name, each in parameters.items()
        if name != INJECTED and each.kind not in variadic
    }
    arguments = create_model(f"{tool.function}_arguments", __config__=ConfigDict(extra="forbid"), **fields)
    description = tool.description or inspect.getdoc(function) or ""
    return ToolFunction(tool.function, description, function, arguments, INJECTED in parameters)


def _unannotated(parameter: inspect.Parameter) -> Any:
    return str if parameter.default is parameter.empty else Any


def _annotation(hint: Any) -> Any:
    """`Annotated[str, "what it is"]` is how authors describe parameters."""
    if get_origin(hint) is not Annotated:
        return hint
    kind, *extras = get_args(hint)
    return Annotated[(kind, *(Field(description=each) if isinstance(each, str) else each for each in extras))]


def _sentence(error: ValidationError) -> str:
    problems = [f"{'.'.join(map(str, each['loc'])) or 'arguments'}: {each['msg']}" for each in error.errors()[:5]]
    return f"The arguments do not fit: {'; '.join(problems)}."
