"""Tool parameters: those published to a model, and those that the run fills in."""

import inspect
import json
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NotRequired, Required, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo
from typing_extensions import TypedDict

from workflows.chat.chat_errors import PackageDefect
from workflows.chat.package_code.bound_arguments import (
    ANNOTATION_ERRORS,
    CONTEXT_PARAMETER,
    is_context_hint,
    resolve_hint,
)

# A model must choose neither the tenant nor the key that keeps a repeated turn from acting twice.
INJECTED_NAMES = frozenset(
    {CONTEXT_PARAMETER, "turn_idempotency_key", "chat_id", "app_id", "enterprise_id", "workflow_name", "agent_name"}
)
RUNTIME_NAMES = INJECTED_NAMES | {"user_id", "run_id"}  # `**runtime` receives these
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


@dataclass(frozen=True, slots=True)
class ToolParameters:
    """A function's parameters.

    `published_names` are the caller's, by the author's names. `injected_parameters` maps parameters to the run's names
    for them. `takes_keywords`: all else of the run goes into `**runtime`. `injected_names` are names whose value the
    run supplies, whether or not the function takes it, and that no parameter publishes."""

    arguments: type[BaseModel]
    published_names: tuple[str, ...]
    injected_parameters: Mapping[str, str]
    positional_names: tuple[str, ...]  # positional-only ones, in order
    takes_keywords: bool
    injected_names: frozenset[str]

    def json_schema(self) -> dict[str, Any]:
        schema = self.arguments.model_json_schema()
        schema.pop("title", None)
        return {"properties": {}, **schema}

    def find_injected(self, arguments: Any) -> tuple[str, ...]:
        """Returns names in a model's arguments whose value the run supplies."""
        return (
            tuple(name for name in arguments if name in self.injected_names) if isinstance(arguments, Mapping) else ()
        )

    def bind(self, arguments: Mapping[str, Any], runtime: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Returns the function's arguments. ValidationError when a model's do not fit."""
        valid = self.arguments.model_validate(dict(arguments))
        # Attributes, not a dump: nested models keep the types of the function's annotations.
        fields = type(valid).model_fields
        values: dict[str, Any] = {field.alias or name: getattr(valid, name) for name, field in fields.items()}
        values |= {parameter: runtime.get(name) for parameter, name in self.injected_parameters.items()}
        if self.takes_keywords:
            values |= {name: value for name, value in runtime.items() if name not in values}
        return [values.pop(name) for name in self.positional_names], values


def read_parameters(function: Callable[..., Any], *, name: str, file: str) -> ToolParameters:
    """Reads a signature. PackageDefect when no JSON schema can describe it to a model."""
    try:
        parameters = inspect.signature(function).parameters
        hints = {parameter.name: _parameter_hint(parameter, function) for parameter in parameters.values()}
    except ANNOTATION_ERRORS as error:
        raise PackageDefect(f"{file}: the annotations of {name} cannot be read: {error}") from None
    plain = [parameter for parameter in parameters.values() if parameter.kind not in _VARIADIC]
    filled_in = {
        parameter.name: CONTEXT_PARAMETER if is_context_hint(hints[parameter.name]) else parameter.name
        for parameter in plain
    }
    filled_in = {parameter: source for parameter, source in filled_in.items() if source in INJECTED_NAMES}
    published = [parameter for parameter in plain if parameter.name not in filled_in]
    takes_all = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values())
    injected = {*filled_in, *filled_in.values(), *RUNTIME_NAMES}
    try:
        # Under names of our own: pydantic restricts field names, so the author's is only an alias.
        fields: dict[str, Any] = {
            f"argument_{index}": _model_field(parameter, hints[parameter.name])
            for index, parameter in enumerate(published)
        }
        arguments = create_model(f"{name}_arguments", __config__=ConfigDict(extra="forbid"), **fields)
        arguments.model_json_schema()
    except (PydanticUserError, TypeError, NameError) as error:
        reason = str(error).splitlines()[0]
        raise PackageDefect(f"{file}: the parameters of {name} have no JSON schema: {reason}") from None
    return ToolParameters(
        arguments,
        tuple(parameter.name for parameter in published),
        filled_in,
        tuple(parameter.name for parameter in plain if parameter.kind is inspect.Parameter.POSITIONAL_ONLY),
        takes_all,
        frozenset(injected.difference(parameter.name for parameter in published)),
    )


def describe_errors(error: ValidationError) -> str:
    problems = [
        f"{'.'.join(map(str, problem['loc'])) or 'arguments'}: {problem['msg']}" for problem in error.errors()[:5]
    ]
    return f"The arguments do not fit: {'; '.join(problems)}."


def _parameter_hint(parameter: inspect.Parameter, function: Callable[..., Any]) -> Any:
    """Evaluates one annotation at a time.

    One that only a type checker can read must not matter where nothing depends on it."""
    annotation = parameter.annotation
    if annotation is parameter.empty or parameter.kind in _VARIADIC or parameter.name in INJECTED_NAMES:
        return None
    return resolve_hint(parameter, function)


def _model_field(parameter: inspect.Parameter, hint: Any) -> tuple[Any, Any]:
    required = parameter.default is parameter.empty
    if hint is None:
        hint = str if required else Any
    kind, *extras = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    # `Annotated[str, "what it is"]` is how authors describe parameters.
    described = [Field(description=extra) if isinstance(extra, str) else extra for extra in extras]
    default = ... if required else _json_default(parameter.default)
    return Annotated[(_portable_hint(kind), *described, Field(alias=parameter.name))], default


def _json_default(value: Any) -> Any:
    """Returns a parameter's default for pydantic.

    A value outside of JSON is kept as it is: a copy of `_MISSING = object()` would be another object."""
    if isinstance(value, FieldInfo):
        return value
    try:
        json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        return Field(default_factory=lambda: value)
    return value


def _portable_hint(hint: Any) -> Any:
    """Replaces typing's TypedDict, which pydantic reads only from Python 3.12 on."""
    if typing.is_typeddict(hint):
        return _portable_dict(hint)
    origin, inner = get_origin(hint), get_args(hint)
    portable = tuple(map(_portable_hint, inner))
    if all(new is old for new, old in zip(portable, inner, strict=True)):
        return hint
    return Union[portable] if origin is types.UnionType else origin[portable]  # noqa: UP007 -- made of a tuple


def _portable_dict(hint: Any) -> Any:
    fields = {}
    for name, annotation in typing.get_type_hints(hint, include_extras=True).items():
        kind = get_args(annotation)[0] if get_origin(annotation) in (Required, NotRequired) else annotation
        mark = Required if name in hint.__required_keys__ else NotRequired
        fields[name] = mark[_portable_hint(kind)]
    return TypedDict(hint.__name__, fields)  # type: ignore[operator]  # made from the author's fields
