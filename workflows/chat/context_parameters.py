"""Context parameters: which parameter of a package's function takes the live context, by its annotation."""

import inspect
import re
import typing
from collections.abc import Callable
from typing import Any, get_args, get_origin

from workflows.context.context_variables import ContextVariables

CONTEXT = "context_variables"
UNREADABLE = (NameError, TypeError, AttributeError, SyntaxError, ValueError)  # what an annotation may raise
_CLASS = re.compile(rf"\b{ContextVariables.__name__}\b")


def hint_of(parameter: inspect.Parameter, function: Callable[..., Any]) -> Any:
    """What the annotation means. One of UNREADABLE when nobody but a type checker can read it, unless its words name
    the context."""
    holder = type("Holder", (), {"__annotations__": {"hint": parameter.annotation}})
    known = getattr(inspect.unwrap(function), "__globals__", {})
    try:
        return typing.get_type_hints(holder, globalns=known, include_extras=True)["hint"]
    except (NameError, AttributeError):
        if _CLASS.search(str(parameter.annotation)):
            return ContextVariables
        raise


def is_context(hint: Any) -> bool:
    """Also `ContextVariables | None`, `Annotated[ContextVariables, "…"]`, and a class that stands in for an import."""
    if isinstance(hint, type) and get_origin(hint) is None:
        return hint.__name__ == ContextVariables.__name__ or issubclass(hint, ContextVariables)
    return get_origin(hint) is not None and any(map(is_context, get_args(hint)))


def takes_context(parameter: inspect.Parameter, function: Callable[..., Any]) -> bool:
    if parameter.annotation is parameter.empty:
        return False
    try:
        return is_context(hint_of(parameter, function))
    except UNREADABLE:
        return False
