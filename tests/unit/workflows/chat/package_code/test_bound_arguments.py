"""Argument binding: parameters as authors write them, and the values they get."""

from collections.abc import Callable
from typing import Annotated, Any, Optional

import pytest

from workflows.chat.chat_errors import PackageDefect
from workflows.chat.package_code.bound_arguments import CONTEXT_PARAMETER, bind_by_name, bind_by_position
from workflows.context.context_variables import ContextVariables

NAMES = (CONTEXT_PARAMETER, "app_id", "error")
OFFERED = {CONTEXT_PARAMETER: "the context", "app_id": "acme", "error": "why"}
HOOK = ("sender", "message", "silent")
SENT = {"sender": "S", "message": "M", "silent": False}


def function_with(parameters: str) -> Callable[..., Any]:
    """Makes a function with these parameters that returns its arguments."""
    made: Callable[..., Any] = eval(f"lambda {parameters}: locals()")  # noqa: S307 -- the test's own text
    return made


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ("", {}),
        ("context_variables", {CONTEXT_PARAMETER: "the context"}),
        ("context_variables=None, **_", {CONTEXT_PARAMETER: "the context", "_": {"app_id": "acme", "error": "why"}}),
        ("*, app_id, error=None, **_", {"app_id": "acme", "error": "why", "_": {CONTEXT_PARAMETER: "the context"}}),
        ("*, app_id, attempt=3", {"app_id": "acme", "attempt": 3}),
        ("ctx", {"ctx": "the context"}),
        ("context=None, *, error", {"context": "the context", "error": "why"}),
        ("ctx, /", {"ctx": "the context"}),
        ("verbose=False", {"verbose": False}),
        ("attempt=3, app_id=''", {"attempt": 3, "app_id": "acme"}),
        ("*rest", {"rest": ()}),
    ],
)
def test_a_lifecycle_tool_gets_what_its_parameters_name(parameters: str, expected: dict[str, Any]) -> None:
    function = function_with(parameters)
    positional, keywords = bind_by_name(function, NAMES).bind(OFFERED)

    assert function(*positional, **keywords) == expected


def annotated(store: ContextVariables, app_id: str) -> Any:
    return store, app_id


def optional(app_id: str, store: Optional["ContextVariables"] = None) -> Any:
    return store, app_id


def described(app_id: str, store: Annotated[ContextVariables | None, "the run"] = None) -> Any:
    return store, app_id


def postponed(app_id: str, store: "dict[str, Any] | ContextVariables") -> Any:
    return store, app_id


Store = ContextVariables


def renamed(app_id: str, store: "Store | None" = None) -> Any:
    return store, app_id


def with_substitute(app_id: str, store: type("ContextVariables", (), {})) -> Any:  # type: ignore[valid-type]  # as where an import fails
    return store, app_id


def partly_annotated(app_id: str, store: "ContextVariables | Unknown") -> Any:  # type: ignore[name-defined]  # noqa: F821 -- as for type checkers only
    return store, app_id


@pytest.mark.parametrize(
    "function", [annotated, optional, described, postponed, renamed, with_substitute, partly_annotated]
)
def test_a_parameter_annotated_as_the_context_is_the_context(function: Callable[..., Any]) -> None:
    positional, keywords = bind_by_name(function, NAMES).bind(OFFERED)

    assert function(*positional, **keywords) == ("the context", "acme")


@pytest.mark.parametrize(
    ("parameters", "unknown"),
    [
        ("amount, app_id", ("amount",)),
        ("*, amount", ("amount",)),
        ("ctx, amount", ("ctx", "amount")),
        ("attempt=1, app_id='', /", ()),
    ],
)
def test_an_unbound_parameter_is_known_before_the_call(parameters: str, unknown: tuple[str, ...]) -> None:
    assert bind_by_name(function_with(parameters), NAMES).unknown == unknown


@pytest.mark.parametrize(
    ("parameters", "starred", "expected"),
    [
        ("sender, message, silent", True, SENT),
        ("message, sender, silent", True, SENT),
        ("a, b", True, {"a": "S", "b": "M"}),
        ("message", True, {"message": "M"}),
        ("text, message", True, {"text": "S", "message": "M"}),
        ("a, b, c, d=None", True, {"a": "S", "b": "M", "c": False, "d": None}),
        ("a, *rest", True, {"a": "S", "rest": ("M", False)}),
        ("*rest, **more", True, {"rest": ("S", "M", False), "more": {}}),
        ("*rest, **more", False, {"rest": (), "more": SENT}),
        ("message, **more", False, {"message": "M", "more": {"sender": "S", "silent": False}}),
        ("*, silent, message", True, {"silent": False, "message": "M"}),
        ("", True, {}),
    ],
)
def test_a_hook_gets_what_its_parameters_take(parameters: str, starred: bool, expected: dict[str, Any]) -> None:
    function = function_with(parameters)
    positional, keywords = bind_by_position(function, HOOK, fills_varargs=starred).bind(SENT)

    assert function(*positional, **keywords) == expected


def test_a_function_whose_parameters_cannot_be_read_is_a_defect() -> None:
    with pytest.raises(PackageDefect, match="cannot be read"):
        bind_by_name(type, NAMES)
