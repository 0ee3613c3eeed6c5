"""Passing: what a package's function takes of what it is offered, known from its parameters before it is called."""

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
ANNOTATION_ERRORS = (NameError, TypeError, AttributeError, SyntaxError, ValueError)  # what an annotation may raise
_CLASS_NAME = re.compile(rf"\b{ContextVariables.__name__}\b")


@dataclass(frozen=True, slots=True)
class ArgumentBinding:
    """Names of what is offered: by position, by parameter. `unknown` are parameters that would need something else."""

    positional: tuple[str, ...]
    keywords: tuple[tuple[str, str], ...]
    unknown: tuple[str, ...]

    def bind(self, arguments: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        return [arguments[name] for name in self.positional], {mine: arguments[name] for mine, name in self.keywords}


def bind_by_name(function: Callable[..., Any], names: Sequence[str]) -> ArgumentBinding:
    """How lifecycle tools are called. A lone parameter of another name is the context, under whatever name."""
    parameters = _signature_parameters(function)
    taken = {each.name: each.name for each in parameters if each.name in names}
    taken |= {
        each.name: CONTEXT_PARAMETER for each in parameters if each.name not in taken and takes_context(each, function)
    }
    lone = [each for each in parameters if each.kind in _POSITIONAL]
    if len(lone) == 1 and lone[0].name not in taken and lone[0].default in (Parameter.empty, None):
        taken[lone[0].name] = CONTEXT_PARAMETER
    return _make_binding(parameters, taken, rest=[name for name in names if name not in taken], fills_varargs=False)


def bind_by_position(
    function: Callable[..., Any], names: Sequence[str], *, fills_varargs: bool = True
) -> ArgumentBinding:
    """How hooks are called: parameters with known names get what they name, the others what is left, in order.
    `starred`: `*args` takes the rest, as AG2 passes it; else `**kwargs` does."""
    parameters = _signature_parameters(function)
    taken = {each.name: each.name for each in parameters if each.name in names}
    rest = [name for name in names if name not in taken]
    for each in parameters:
        if rest and each.kind in _POSITIONAL and each.name not in taken:
            taken[each.name] = rest.pop(0)
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
    gap = False  # after a parameter that keeps its default, the others are named
    for each in parameters:
        source = taken.get(each.name)
        if each.kind is Parameter.VAR_POSITIONAL:
            if fills_varargs and not gap:
                positional, rest = [*positional, *rest], []
            gap = True
        elif each.kind is Parameter.VAR_KEYWORD:
            keywords |= {name: name for name in rest}
        elif source is None or (gap and each.kind is Parameter.POSITIONAL_ONLY):
            gap = True
            unknown += [each.name] if each.default is Parameter.empty else []
        elif gap or each.kind is Parameter.KEYWORD_ONLY:
            keywords[each.name] = source
        else:
            positional.append(source)
    return ArgumentBinding(tuple(positional), tuple(keywords.items()), tuple(unknown))


def resolve_hint(parameter: inspect.Parameter, function: Callable[..., Any]) -> Any:
    """What the annotation means. One of UNREADABLE when nobody but a type checker can read it, unless its words name
    the context."""
    holder = type("Holder", (), {"__annotations__": {"hint": parameter.annotation}})
    known = getattr(inspect.unwrap(function), "__globals__", {})
    try:
        return typing.get_type_hints(holder, globalns=known, include_extras=True)["hint"]
    except (NameError, AttributeError):
        if _CLASS_NAME.search(str(parameter.annotation)):
            return ContextVariables
        raise


def is_context_hint(hint: Any) -> bool:
    """Also `ContextVariables | None`, `Annotated[ContextVariables, "…"]`, and a class that stands in for an import."""
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
