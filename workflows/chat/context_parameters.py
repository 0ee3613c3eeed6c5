"""Context parameters: which parameter of a package's function takes the live context, by its annotation."""

import inspect
import re
import typing
from collections.abc import Callable
from typing import Any, get_args, get_origin

from workflows.context.context_variables import ContextVariables

CONTEXT_PARAMETER = "context_variables"
ANNOTATION_ERRORS = (NameError, TypeError, AttributeError, SyntaxError, ValueError)  # what an annotation may raise
_CLASS_NAME = re.compile(rf"\b{ContextVariables.__name__}\b")


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
