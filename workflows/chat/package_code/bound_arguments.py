"""Argument binding: which of the offered values a package's function takes.

The function's parameters decide, before it is called.
"""

import inspect
import re
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter
from typing import Any, get_args, get_origin

from workflows.chat.chat_errors import PackageDefect
from workflows.context.context_variables import ContextVariables

_POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)

CONTEXT_PARAMETER = "context_variables"
# What reading an annotation may raise.
ANNOTATION_ERRORS = (
    NameError,
    TypeError,
    AttributeError,
    SyntaxError,
    ValueError,
)
_CLASS_NAME = re.compile(rf"\b{ContextVariables.__name__}\b")


@dataclass(frozen=True, slots=True)
class ArgumentBinding:
    """Names of offered values, by position and by parameter.

    `unknown` are parameters without a default that no offered value fits."""

    positional: tuple[str, ...]
    keywords: tuple[tuple[str, str], ...]
    unknown: tuple[str, ...]

    def bind(self, arguments: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        keywords = {parameter: arguments[name] for parameter, name in self.keywords}
        return [arguments[name] for name in self.positional], keywords


def bind_by_name(function: Callable[..., Any], names: Sequence[str]) -> ArgumentBinding:
    """Binds as lifecycle tools are called.

    A lone parameter of another name gets the context."""
    parameters = _signature_parameters(function)
    taken = {parameter.name: parameter.name for parameter in parameters if parameter.name in names}
    taken |= {
        parameter.name: CONTEXT_PARAMETER
        for parameter in parameters
        if parameter.name not in taken and takes_context(parameter, function)
    }
    lone = [parameter for parameter in parameters if parameter.kind in _POSITIONAL]
    if len(lone) == 1 and lone[0].name not in taken and lone[0].default in (Parameter.empty, None):
        taken[lone[0].name] = CONTEXT_PARAMETER
    return _make_binding(parameters, taken, rest=[name for name in names if name not in taken], fills_varargs=False)


def bind_by_position(
    function: Callable[..., Any], names: Sequence[str], *, fills_varargs: bool = True
) -> ArgumentBinding:
    """Binds as hooks are called.

    Parameters with known names get those values, the others the rest in order. With `fills_varargs`, `*args` takes what
    is left, as AG2 passes it; otherwise `**kwargs` does."""
    parameters = _signature_parameters(function)
    taken = {parameter.name: parameter.name for parameter in parameters if parameter.name in names}
    rest = [name for name in names if name not in taken]
    for parameter in parameters:
        if rest and parameter.kind in _POSITIONAL and parameter.name not in taken:
            taken[parameter.name] = rest.pop(0)
    return _make_binding(parameters, taken, rest=rest, fills_varargs=fills_varargs)


def _signature_parameters(function: Callable[..., Any]) -> list[Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError) as error:
        name = getattr(function, "__name__", "the function")
        raise PackageDefect(f"the parameters of {name} cannot be read: {error}; write it in Python") from None


def _make_binding(
    parameters: Iterable[Parameter], taken: Mapping[str, str], *, rest: list[str], fills_varargs: bool
) -> ArgumentBinding:
    positional: list[str] = []
    keywords: dict[str, str] = {}
    unknown: list[str] = []
    gap = False  # after a parameter that keeps its default, the others are passed by name
    for parameter in parameters:
        source = taken.get(parameter.name)
        if parameter.kind is Parameter.VAR_POSITIONAL:
            if fills_varargs and not gap:
                positional, rest = [*positional, *rest], []
            gap = True
        elif parameter.kind is Parameter.VAR_KEYWORD:
            keywords |= {name: name for name in rest}
        elif source is None or (gap and parameter.kind is Parameter.POSITIONAL_ONLY):
            gap = True
            unknown += [parameter.name] if parameter.default is Parameter.empty else []
        elif gap or parameter.kind is Parameter.KEYWORD_ONLY:
            keywords[parameter.name] = source
        else:
            positional.append(source)
    return ArgumentBinding(tuple(positional), tuple(keywords.items()), tuple(unknown))


def resolve_hint(parameter: inspect.Parameter, function: Callable[..., Any]) -> Any:
    """Evaluates an annotation.

    Raises one of ANNOTATION_ERRORS for one that only a type checker can read, unless it names the context's class."""
    holder = type("Holder", (), {"__annotations__": {"hint": parameter.annotation}})
    known = getattr(inspect.unwrap(function), "__globals__", {})
    try:
        return typing.get_type_hints(holder, globalns=known, include_extras=True)["hint"]
    except (NameError, AttributeError):
        if _CLASS_NAME.search(str(parameter.annotation)):
            return ContextVariables
        raise


def is_context_hint(hint: Any) -> bool:
    """Accepts unions, `Annotated` and stand-ins of ContextVariables too."""
    if isinstance(hint, type) and get_origin(hint) is None:
        return hint.__name__ == ContextVariables.__name__ or issubclass(hint, ContextVariables)
    return get_origin(hint) is not None and any(map(is_context_hint, get_args(hint)))


def takes_context(parameter: inspect.Parameter, function: Callable[..., Any]) -> bool:
    if parameter.annotation is parameter.empty:
        return False
    try:
        return is_context_hint(resolve_hint(parameter, function))
    except ANNOTATION_ERRORS:
        return False
