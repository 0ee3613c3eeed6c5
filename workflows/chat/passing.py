"""Passing: what a package's function takes of what it is offered, known from its parameters before it is called."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter
from typing import Any

from workflows.chat.context_parameters import CONTEXT_PARAMETER, takes_context
from workflows.chat.errors import PackageDefect

_POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


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
    taken |= {each.name: CONTEXT_PARAMETER for each in parameters if each.name not in taken and takes_context(each, function)}
    lone = [each for each in parameters if each.kind in _POSITIONAL]
    if len(lone) == 1 and lone[0].name not in taken and lone[0].default in (Parameter.empty, None):
        taken[lone[0].name] = CONTEXT_PARAMETER
    return _make_binding(parameters, taken, rest=[name for name in names if name not in taken], fills_varargs=False)


def bind_by_position(function: Callable[..., Any], names: Sequence[str], *, fills_varargs: bool = True) -> ArgumentBinding:
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


def _make_binding(parameters: Iterable[Parameter], taken: Mapping[str, str], *, rest: list[str], fills_varargs: bool) -> ArgumentBinding:
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
