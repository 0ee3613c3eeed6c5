"""Tool functions: what a model may see and send, and what a function gets."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.unit.workflows.chats import THREADS
from tests.unit.workflows.packages import load, write_tool
from workflows.chat.chat_errors import PackageDefect
from workflows.chat.package_code.invocation import TOOL_TIMEOUT_S, PackageCodeError
from workflows.chat.package_code.package_modules import PackageModules
from workflows.chat.tools.tool_functions import ToolFunction, ToolRefused, load_tool_functions
from workflows.context.context_variables import ContextVariables
from workflows.package.loader import load_package
from workflows.package.normal_form.package_model import Package, Tool

HEAD = "from typing import Annotated, Any, Literal, Optional\n"
RUNTIME = {
    "turn_idempotency_key": "run_1:2",
    "app_id": "acme",
    "enterprise_id": "acme",
    "user_id": "ada",
    "chat_id": "chat_1",
    "run_id": "run_1",
    "workflow_name": "Small",
    "agent_name": "A",
}


def package_of(folder: Path, source: str, **tool: Any) -> Package:
    write_tool(folder, "t.py", source)
    package = load(folder, tools=[{"agent": "A", "file": "t.py", "function": "t", **tool}])
    assert not package.is_refused, package.findings
    return package


def functions_of(package: Package) -> dict[Tool, ToolFunction]:
    return load_tool_functions(package, PackageModules(package))


def function(folder: Path, source: str, **tool: Any) -> ToolFunction:
    return next(iter(functions_of(package_of(folder, HEAD + source, **tool)).values()))


def defect(folder: Path, source: str) -> str:
    with pytest.raises(PackageDefect) as caught:
        function(folder, source)
    return str(caught.value)


async def call(tool: ToolFunction, context: ContextVariables | None = None, /, **arguments: Any) -> Any:
    runtime = {**RUNTIME, "context_variables": ContextVariables() if context is None else context}
    return await tool.call(tool.new_call("1.1", arguments), runtime, THREADS)


async def test_an_annotated_text_describes_its_parameter(tmp_path: Path) -> None:
    tool = function(
        tmp_path,
        'def t(region: Annotated[str, "eu or us"], n: Annotated[Optional[int], "how many"] = None): return region, n\n',
    )

    schema = tool.json_schema()

    assert schema["properties"]["region"]["description"] == "eu or us"
    assert schema["properties"]["n"]["description"] == "how many"
    assert schema["required"] == ["region"]
    assert schema["additionalProperties"] is False
    assert await call(tool, region="eu") == ("eu", None)
    assert await call(tool, region="eu", n=None) == ("eu", None)


@pytest.mark.design("D1-67")
@pytest.mark.parametrize(
    "signature",
    [
        "a: str, context_variables=None",
        "a: str, context_variables: Any = None",
        "a: str, *, context_variables",
        'context_variables: Annotated[Optional[Any], "the context"], a: str',
        "a: str, context_variables: dict[str, Any] | None = None, **runtime",
        "a: str, *extra, context_variables=None, **kwargs: Any",
    ],
)
@pytest.mark.parametrize("kind", ["def", "async def"])
@pytest.mark.parametrize("postponed", ["", "from __future__ import annotations\n"])
async def test_the_context_is_given_and_never_published(
    tmp_path: Path, signature: str, kind: str, postponed: str
) -> None:
    write_tool(
        tmp_path,
        "t.py",
        f"{postponed}{HEAD}{kind} t({signature}):\n    context_variables['seen'] = a\n    return context_variables\n",
    )
    package = load(tmp_path, tools=[{"agent": "A", "file": "t.py", "function": "t"}])
    tool = next(iter(load_tool_functions(package, PackageModules(package)).values()))
    context = ContextVariables()

    assert list(tool.json_schema()["properties"]) == ["a"]
    assert await call(tool, context, a="x") is context
    assert context["seen"] == "x"
    assert await call(tool, context, a="y", context_variables={"forged": True}) is context
    assert context["seen"] == "y"


@pytest.mark.parametrize("kind", ["def", "async def"])
async def test_keyword_only_parameters_and_defaults(tmp_path: Path, kind: str) -> None:
    tool = function(
        tmp_path,
        f"{kind} t(*, kind: Literal['a', 'b'], items: list[int] = [], plain=3, bare):\n"
        "    return kind, items, plain, bare\n",
    )

    assert await call(tool, kind="a", bare="x") == ("a", [], 3, "x")
    assert tool.json_schema()["required"] == ["kind", "bare"]
    assert tool.json_schema()["properties"]["bare"]["type"] == "string"


@pytest.mark.parametrize(
    "name", ["_private", "json", "copy", "schema", "model_config", "model_fields", "self", "PatternSelection"]
)
async def test_a_parameter_may_have_any_name(tmp_path: Path, name: str) -> None:
    tool = function(tmp_path, f"def t({name}: str): return {name}\n")

    assert list(tool.json_schema()["properties"]) == [name]
    assert await call(tool, **{name: "x"}) == "x"


async def test_nested_models_arrive_as_the_annotation_promises(tmp_path: Path) -> None:
    source = (
        "from pydantic import BaseModel\n"
        "class Item(BaseModel):\n    n: int\n"
        "def t(items: list[Item]): return sum(item.n for item in items)\n"
    )
    assert await call(function(tmp_path, source), items=[{"n": 1}, {"n": 2}]) == 3


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "n: Field required"),
        ({"n": "many"}, "n: Input should be a valid integer"),
        ({"n": 1, "other": 2}, "other: Extra inputs are not permitted"),
        ({"unreadable_arguments": "{"}, "n: Field required"),
    ],
)
async def test_arguments_that_do_not_fit_are_refused_in_a_sentence(
    tmp_path: Path, arguments: dict[str, Any], said: str
) -> None:
    tool = function(tmp_path, "def t(n: int): raise AssertionError\n")

    with pytest.raises(ToolRefused) as caught:
        await call(tool, **arguments)

    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_one_calls_default_is_not_the_next_ones(tmp_path: Path) -> None:
    tool = function(tmp_path, "def t(items: list[str] = []):\n    items.append('x')\n    return list(items)\n")

    assert [await call(tool), await call(tool)] == [["x"], ["x"]]


async def test_a_tool_without_parameters(tmp_path: Path) -> None:
    tool = function(tmp_path, "def t(): return 1\n")

    assert tool.json_schema()["properties"] == {}
    assert await call(tool) == 1


@pytest.mark.parametrize(
    ("source", "tool", "description"),
    [
        ("def t():\n    '''From the code.'''\n", {}, "From the code."),
        ("def t():\n    '''From the code.'''\n", {"description": "From the file."}, "From the file."),
        ("def t(): ...\n", {}, ""),
    ],
)
def test_a_description_comes_from_the_file_else_from_the_code(
    tmp_path: Path, source: str, tool: dict[str, Any], description: str
) -> None:
    assert function(tmp_path, source, **tool).description == description


@pytest.mark.design("D4-63", "D4-92")
async def test_a_synchronous_tool_runs_beside_the_loop_and_may_run_its_own(tmp_path: Path) -> None:
    source = (
        "import asyncio, threading\n"
        "async def inner(): return threading.current_thread().name\n"
        "def t(): return asyncio.run(inner())\n"
    )
    assert (await call(function(tmp_path, source))).startswith("test-tools")


async def test_a_plain_function_around_an_async_one_is_awaited(tmp_path: Path) -> None:
    source = "async def inner(a): return a\ndef t(a: str): return inner(a)\n"
    assert await call(function(tmp_path, source), a="x") == "x"


async def test_stop_iteration_leaves_a_synchronous_tool_as_an_error(tmp_path: Path) -> None:
    with pytest.raises(PackageCodeError, match="StopIteration"):
        await call(function(tmp_path, "def t(): return next(iter([]))\n"))


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("raise ValueError('no database')\ndef t(): ...\n", "t.py failed when it was loaded: ValueError: no database"),
        ("import sys\nsys.exit(3)\ndef t(): ...\n", "t.py failed when it was loaded: SystemExit: 3"),
        ("import nothing_of_that_name\ndef t(): ...\n", "t.py failed when it was loaded: ModuleNotFoundError"),
        ("def t(): ...\ndel t\n", "t.py has no function t"),
        ("def t(): ...\nt = 5\n", "t.py has no function t"),
        ("def t(a: 'Nowhere'): ...\n", "annotations of t cannot be read"),
        ("def t(a: '1 +'): ...\n", "annotations of t cannot be read"),
        ("import threading\ndef t(a: threading.Lock): ...\n", "parameters of t have no JSON schema"),
        (
            "from collections.abc import Callable\ndef t(a: Callable[[], None]): ...\n",
            "parameters of t have no JSON schema",
        ),
    ],
)
def test_a_module_that_cannot_be_used_is_a_defect(tmp_path: Path, source: str, said: str) -> None:
    assert said in defect(tmp_path, source)


def test_a_module_that_failed_leaves_nothing_behind(tmp_path: Path) -> None:
    before = set(sys.modules)

    defect(tmp_path, "raise ValueError\ndef t(): ...\n")

    assert not {name for name in set(sys.modules) - before if name.startswith("unattended_package_")}


async def test_an_edit_in_the_same_second_and_of_the_same_size_is_new_code(tmp_path: Path) -> None:
    first = function(tmp_path, "def t(): return 1\n")

    edit_in_place(tmp_path / "tools" / "t.py", "return 1", "return 2")
    second = next(iter(functions_of(load_package(tmp_path)).values()))

    assert (await call(first), await call(second)) == (1, 2)


def edit_in_place(path: Path, old: str, new: str) -> None:
    times = path.stat()
    path.write_text(path.read_text().replace(old, new))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def test_a_package_folder_stays_as_it_was(tmp_path: Path) -> None:
    function(tmp_path, "def t(): ...\n")
    assert not list(tmp_path.rglob("__pycache__"))


async def test_files_of_one_name_in_two_folders_are_two_modules(tmp_path: Path) -> None:
    source = HEAD + "from dataclasses import dataclass\n@dataclass\nclass Where:\n    place: 'str'\n"
    for place in ("a", "b"):
        write_tool(tmp_path, f"{place}/same.py", f"{source}def {place}(): return Where({place!r})\n")
    package = load(
        tmp_path, tools=[{"agent": "A", "file": f"tools/{place}/same.py", "function": place} for place in "ab"]
    )

    functions = list(load_tool_functions(package, PackageModules(package)).values())

    assert [(await call(each)).place for each in functions] == ["a", "b"]
    assert len({each.function.__module__ for each in functions}) == 2


def test_a_tool_that_is_not_offered_is_not_even_imported(tmp_path: Path) -> None:
    package = package_of(tmp_path, "def t(): ...\nraise RuntimeError('imported')\n", bind_to_agent=False)

    assert [tool.function for tool in package.tools] == ["t"]
    assert load_tool_functions(package, PackageModules(package)) == {}


POSTPONED = "from __future__ import annotations\n"
CONTEXT = "from workflows.tools import ContextVariables\n"


@pytest.mark.parametrize("postponed", ["", POSTPONED])
@pytest.mark.parametrize(
    "annotation",
    [
        "ContextVariables",
        "Optional[ContextVariables]",
        "ContextVariables | None",
        "Annotated[ContextVariables, 'what is known']",
        "'ContextVariables'",
        "Optional['somewhere.ContextVariables']",
        "type('ContextVariables', (), {})",
    ],
)
async def test_the_context_is_known_by_its_class_under_any_name(
    tmp_path: Path, annotation: str, postponed: str
) -> None:
    write_tool(tmp_path, "t.py", f"{postponed}{HEAD}{CONTEXT}def t(a: str, ctx: {annotation} = None): return ctx\n")
    package = load(tmp_path, tools=[{"agent": "A", "file": "t.py", "function": "t"}])
    [tool] = functions_of(package).values()
    context = ContextVariables()

    assert tool.parameters.published_names == ("a",)
    assert await call(tool, context, a="x") is context


async def test_what_only_a_type_checker_imports_is_no_obstacle_where_we_fill_in(tmp_path: Path) -> None:
    source = (
        "from __future__ import annotations\nfrom typing import TYPE_CHECKING, Optional\n"
        "if TYPE_CHECKING:\n    from somewhere import ContextVariables, Result\n"
        "def t(a: str, ctx: Optional[ContextVariables], context_variables: ContextVariables | None = None) -> Result:\n"
        "    return ctx is context_variables\n"
    )
    write_tool(tmp_path, "t.py", source)
    package = load(tmp_path, tools=[{"agent": "A", "file": "t.py", "function": "t"}])

    assert await call(next(iter(functions_of(package).values())), a="x") is True


NAMES = "turn_idempotency_key, chat_id, app_id, enterprise_id, workflow_name, agent_name"
FILLED_IN = ("run_1:2", "chat_1", "acme", "acme", "Small", "A")


@pytest.mark.parametrize(
    "signature", [f"a: str, {NAMES}", f"{NAMES}, *, a", f"{NAMES}, /, a: str", f"a, *more, {NAMES}"]
)
async def test_what_the_run_knows_is_filled_in_and_no_model_chooses_it(tmp_path: Path, signature: str) -> None:
    tool = function(tmp_path, f"def t({signature}): return {NAMES}\n")

    assert list(tool.json_schema()["properties"]) == ["a"]
    assert await call(tool, a="x") == FILLED_IN
    assert await call(tool, a="x", app_id="globex", agent_name="B", chat_id=None) == FILLED_IN
    assert await call(tool, a="x", run_id="run_2") == FILLED_IN
    with pytest.raises(ToolRefused, match="note: Extra inputs are not permitted"):
        await call(tool, a="x", note="y")


@pytest.mark.parametrize(
    ("signature", "sent", "kept"),
    [
        ("a: str = ''", ["a", "app_id", "user_id", "note"], ["a", "note"]),
        ("a: str = '', app_id: str = ''", ["a", "app_id", "user_id"], ["a"]),
        ("user_id: str = '', run_id: str = ''", ["user_id", "run_id", "app_id"], ["user_id", "run_id"]),
        ("user_id: str = '', **runtime", ["user_id", "run_id", "app_id", "note"], ["user_id", "note"]),
        ("ctx: 'ContextVariables', a: str = ''", ["ctx", "context_variables", "a"], ["a"]),
        ("context, a: str = ''", ["context", "context_variables"], ["context"]),
    ],
)
def test_what_the_run_gives_is_dropped_unless_it_is_published(
    tmp_path: Path, signature: str, sent: list[str], kept: list[str]
) -> None:
    """A published name stays the model's; an unknown name is refused with the call."""
    tool = function(tmp_path, f"class ContextVariables: ...\ndef t({signature}): ...\n")

    assert list(tool.new_call("1.1", dict.fromkeys(sent, "x")).arguments) == kept


async def test_runtime_takes_everything_else(tmp_path: Path) -> None:
    tool = function(
        tmp_path, "async def t(user_id: str, app_id: str, *more, **runtime): return more, sorted(runtime)\n"
    )

    assert list(tool.json_schema()["properties"]) == ["user_id"]
    rest = ["agent_name", "chat_id", "context_variables", "enterprise_id", "run_id", "turn_idempotency_key"]
    assert await call(tool, user_id="whoever") == ((), [*rest, "workflow_name"])


KINDS = (
    "import dataclasses, enum, typing, typing_extensions, pydantic\n"
    "class Colour(enum.Enum):\n    RED = 'red'\n"
    "@dataclasses.dataclass\nclass Point:\n    x: int\n    y: int = 0\n"
    "class Loose(typing.TypedDict, total=False):\n    n: int\n"
    "class Strict(Loose):\n    name: typing.Required[str]\n"
    "class Item(pydantic.BaseModel):\n    n: int\n"
    "MISSING = object()\n"
)


@pytest.mark.parametrize(
    ("parameter", "sent", "got"),
    [
        ("v: Colour", "red", "Colour.RED"),
        ("v: Point", {"x": 1}, "Point(1)"),
        ("v: list[Point]", [{"x": 1, "y": 2}], "[Point(1, 2)]"),
        ("v: Strict", {"name": "a", "n": 1}, "{'name': 'a', 'n': 1}"),
        ("v: dict[str, Strict | None]", {"k": {"name": "a"}, "none": None}, "{'k': {'name': 'a'}, 'none': None}"),
        ("v: Optional[list[Loose]] = None", [{}], "[{}]"),
        ("v: Annotated[Optional[Item], 'an item'] = None", {"n": "1"}, "Item(n=1)"),
        ("v: int = pydantic.Field(3, ge=1, description='how many')", 4, "4"),
        ("v: Annotated[int, pydantic.Field(ge=1)] = 3", 4, "4"),
        ("v: int | Literal['all']", "all", "'all'"),
        ("v, /", "x", "'x'"),
        ("first=1, /, v=2", 3, "3"),
        ("v: Any", {"a": [1]}, "{'a': [1]}"),
    ],
)
async def test_every_kind_of_parameter(tmp_path: Path, parameter: str, sent: Any, got: str) -> None:
    write_tool(tmp_path, "t.py", f"{HEAD}{KINDS}def t({parameter}):\n    return v, v == {got}\n")
    package = load(tmp_path, tools=[{"agent": "A", "file": "t.py", "function": "t"}])
    [tool] = functions_of(package).values()

    value, same = await call(tool, v=sent)

    assert same, value


@pytest.mark.parametrize(
    ("parameter", "got"),
    [("v=MISSING", "MISSING"), ("v: int = pydantic.Field(3, ge=1)", "3"), ("v: Point = Point(1)", "Point(1)")],
)
async def test_a_default_is_what_the_author_wrote(tmp_path: Path, parameter: str, got: str) -> None:
    tool = function(tmp_path, f"{KINDS}def t({parameter}): return v == {got}\n")

    assert await call(tool) is True


async def test_limits_and_descriptions_of_a_field_reach_the_model(tmp_path: Path) -> None:
    tool = function(tmp_path, f"{KINDS}def t(v: int = pydantic.Field(3, ge=1, description='how many')): ...\n")

    schema = tool.json_schema()["properties"]["v"]
    assert (schema["description"], schema["minimum"], schema["default"]) == ("how many", 1, 3)
    with pytest.raises(ToolRefused, match="v: Input should be greater than or equal to 1"):
        await call(tool, v=0)


async def test_a_tool_has_the_time_that_its_entry_gives_it(tmp_path: Path) -> None:
    tool = function(tmp_path, "import time\ndef t(): time.sleep(0.5)\n", timeout_s=0.1)

    with pytest.raises(PackageCodeError, match=r"longer than 0\.1 s"):
        await call(tool)
    assert function(tmp_path / "b", "def t(): ...\n").timeout_s == TOOL_TIMEOUT_S
