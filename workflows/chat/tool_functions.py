"""Tool functions: a package's plain Python functions, with the signature a model may see."""

import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.errors import PydanticUserError

from workflows.chat.errors import PackageDefect
from workflows.chat.invoking import TOOL_TIMEOUT_S, ToolThreads, invoke
from workflows.chat.tool_modules import PackageModules
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
    timeout_s: float = TOOL_TIMEOUT_S

    def json_schema(self) -> dict[str, Any]:
        schema = self.arguments.model_json_schema()
        schema.pop("title", None)
        return {"properties": {}, **schema}

    async def call(self, arguments: Mapping[str, Any], context: ContextVariables, threads: ToolThreads) -> Any:
        try:
            valid = self.arguments.model_validate(dict(arguments))
        except ValidationError as error:
            raise ToolRefused(_sentence(error)) from None
        # Attributes, not a dump: nested models stay what the function's annotations promise.
        fields = type(valid).model_fields
        given: dict[str, Any] = {field.alias or name: getattr(valid, name) for name, field in fields.items()}
        if self.wants_context:
            given[INJECTED] = context
        return await invoke(self.function, keywords=given, threads=threads, timeout_s=self.timeout_s)


def load_tool_functions(package: Package, modules: PackageModules) -> dict[Tool, ToolFunction]:
    return {tool: tool_function(tool, modules) for tool in package.tools if tool.offered}


def tool_function(tool: Tool, modules: PackageModules) -> ToolFunction:
    function = modules.function(tool.file, tool.function)
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
    timeout_s = TOOL_TIMEOUT_S if tool.timeout_s is None else tool.timeout_s
    return ToolFunction(tool.function, description, function, arguments, INJECTED in parameters, timeout_s)


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
