"""Inputs of a run: declared types and choices, and the limits of a payload."""

from pathlib import Path
from typing import Any

import pytest

from tests.unit.workflows.contexts import context_of, package, values_of
from workflows.context.reads.missing_values import ContextError


@pytest.mark.parametrize(
    ("declared", "fitting", "written", "others"),
    [
        ("string", "7", 7, [True, [], {}, 7.5]),
        ("integer", 7, "7", [7.5, True, [], "seven"]),
        ("number", 7.5, "7.5", ["", False, {}]),
        ("boolean", True, "true", [2, "maybe", []]),
        ("object", {"a": 1}, '{"a": 1}', [[], "[]", 1]),
        ("array", [1], "[1]", [{}, "{}", 1]),
    ],
)
async def test_an_input_has_its_declared_type_or_the_run_ends(
    tmp_path: Path, declared: str, fitting: Any, written: Any, others: list[Any]
) -> None:
    spec = package(tmp_path, {"a": {"type": declared}})

    for given in (fitting, written):  # as a form or a header writes it
        value = (await values_of(spec, {"a": given}))["a"]
        assert (value, type(value)) == (fitting, type(fitting))
    for other in others:
        with pytest.raises(ContextError, match=f"^a from the run's input: it must be of type {declared}$"):
            await context_of(spec, {"a": other})


async def test_an_input_without_a_type_takes_anything(tmp_path: Path) -> None:
    spec = package(tmp_path, {"a": {}})

    for value in (1, "1", True, {"a": 1}, [None]):
        assert (await values_of(spec, {"a": value}))["a"] == value


@pytest.mark.parametrize(("value", "fits"), [("eu", True), (1, True), ("EU", False), (True, False), ("canary", False)])
async def test_an_input_is_one_of_its_choices(tmp_path: Path, value: Any, fits: bool) -> None:
    spec = package(tmp_path, {"region": {"enum": ["eu", "us", 1]}})

    if fits:
        assert (await values_of(spec, {"region": value}))["region"] == value
    else:
        with pytest.raises(ContextError, match="region from the run's input: it must be one of eu, us, 1") as caught:
            await context_of(spec, {"region": value})
        assert "canary" not in str(caught.value)


async def test_a_variable_of_the_runs_own_begins_at_the_input_of_its_name(tmp_path: Path) -> None:
    spec = package(
        tmp_path,
        {"stage": {"type": "string"}, "fixed": {"type": "string"}},
        stage={"type": "state", "default": "new"},
        fixed={"type": "static", "value": "as shipped"},
    )

    given = await values_of(spec, {"stage": "review", "fixed": "forged"})
    not_given = await values_of(spec)

    assert (given["stage"], given["fixed"]) == ("review", "as shipped")
    assert not_given["stage"] == "new"


async def test_a_payload_is_not_shared_with_the_context(tmp_path: Path) -> None:
    payload = {"tags": ["a"], "who": ["b"]}
    spec = package(tmp_path, {"tags": {"type": "array"}}, who={"type": "runtime", "as": "array"})

    context = (await context_of(spec, payload)).variables
    context["tags"].append("x")
    context["who"].append("x")

    assert payload == {"tags": ["a"], "who": ["b"]}


async def test_what_looks_like_a_template_is_only_text(tmp_path: Path) -> None:
    spec = package(
        tmp_path, {"note": {"type": "string"}}, seen={"type": "computed", "inputs": ["note"], "computation": "note"}
    )

    for text in ("{x.__class__}", "{{runtime.app_id}}", "${app_id}", "%(app_id)s", "`1`", "@"):
        values = await values_of(spec, {"note": text})
        assert (values["note"], values["seen"]) == (text, text)
