"""Tool functions: a package's plain Python functions, loaded by path, with the signature a model may see."""

import asyncio
import contextvars
import functools
import hashlib
import importlib.util
import inspect
import sys
import typing
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.errors import PydanticUserError
from typing_extensions import override

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
        fields = type(valid).model_fields
        given: dict[str, Any] = {field.alias or name: getattr(valid, name) for name, field in fields.items()}
        if self.wants_context:
            given[INJECTED] = context
        if inspect.iscoroutinefunction(self.function):
            return await self.function(**given)
        bound = functools.partial(contextvars.copy_context().run, _called, self.function, given)
        result = await asyncio.get_running_loop().run_in_executor(threads, bound)
        if isinstance(result, _Raised):
            raise result.error
        return await result if inspect.isawaitable(result) else result  # a plain function around an async one


@dataclass(frozen=True, slots=True)
class _Raised:
    """Handed over as a value: a future that carries GeneratorExit closes whoever awaits it instead of telling him."""

    error: BaseException


def _called(function: Callable[..., Any], given: Mapping[str, Any]) -> Any:
    try:
        return function(**given)
    except StopIteration as error:
        # Before Python 3.12 a future cannot carry it: whoever awaits the result would wait for ever (gh-112182).
        raise RuntimeError("StopIteration left the tool; give next() a default") from error
    except BaseException as error:  # noqa: BLE001 -- raised again where it is awaited
        return _Raised(error)


def load_tool_functions(package: Package) -> dict[Tool, ToolFunction]:
    modules: dict[Path, ModuleType] = {}
    loaded = {}
    for tool in (each for each in package.tools if each.offered):
        if tool.file not in modules:
            modules[tool.file] = _load_module(package, tool.file)
        loaded[tool] = _tool_function(tool, modules[tool.file])
    return loaded


class _SourceOnly(SourceFileLoader):
    """Never from __pycache__: it knows a source by size and whole second, and an edit may keep both."""

    @override
    def get_code(self, fullname: str) -> CodeType:
        code: CodeType = self.source_to_code(self.get_data(self.path), self.path)
        return code


def _load_module(package: Package, file: Path) -> ModuleType:
    """Under a name unique to package and version: two versions of one tool live side by side."""
    place = hashlib.sha256(str(file).encode(errors="surrogateescape")).hexdigest()[:8]
    name = f"{_module_prefix(package)}{place}_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file, loader=_SourceOnly(name, str(file)))
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


def forget_tool_modules(package: Package) -> None:
    """Runs that still hold functions of this version keep them; whoever builds it again loads them again."""
    prefix = _module_prefix(package)
    for name in [each for each in sys.modules if each.startswith(prefix)]:
        del sys.modules[name]


def _module_prefix(package: Package) -> str:
    return f"unattended_package_{package.version}_"


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
    published = [each for each in parameters.values() if each.name != INJECTED and each.kind not in variadic]
    try:
        # Under names of our own: pydantic has rules for a field's name, and the author's is only its alias.
        fields: dict[str, Any] = {
            f"argument_{index}": _field(each, hints.get(each.name)) for index, each in enumerate(published)
        }
        arguments = create_model(f"{tool.function}_arguments", __config__=ConfigDict(extra="forbid"), **fields)
        arguments.model_json_schema()
    except (PydanticUserError, TypeError, NameError) as error:
        reason = str(error).splitlines()[0]
        message = f"{tool.file.name}: the parameters of {tool.function} have no JSON schema: {reason}"
        raise PackageDefect(message) from None
    description = tool.description or inspect.getdoc(function) or ""
    return ToolFunction(tool.function, description, function, arguments, INJECTED in parameters)


def _field(parameter: inspect.Parameter, hint: Any) -> tuple[Any, Any]:
    required = parameter.default is parameter.empty
    if hint is None:
        hint = str if required else Any
    kind, *extras = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    # `Annotated[str, "what it is"]` is how authors describe parameters.
    described = [Field(description=each) if isinstance(each, str) else each for each in extras]
    return Annotated[(kind, *described, Field(alias=parameter.name))], ... if required else parameter.default


def _sentence(error: ValidationError) -> str:
    problems = [f"{'.'.join(map(str, each['loc'])) or 'arguments'}: {each['msg']}" for each in error.errors()[:5]]
    return f"The arguments do not fit: {'; '.join(problems)}."
