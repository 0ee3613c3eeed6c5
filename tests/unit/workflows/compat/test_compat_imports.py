"""Served imports: modules of another runtime that package code finds here."""

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.unit.workflows.packages import TOOL, load, write_tool
from workflows.chat.chat_errors import PackageDefect
from workflows.chat.hooks.package_steps import load_hooks, load_lifecycle
from workflows.chat.package_code.package_modules import PackageModules
from workflows.chat.tools.tool_functions import load_tool_functions
from workflows.compat.databases import NO_DATABASES, DatabaseNotAllowedError
from workflows.compat.served_modules import ServedModules
from workflows.compat.served_names import SERVED
from workflows.package.normal_form.package_model import Package

TOOLS = [{"agent": "A", "file": "greet.py", "function": "greet"}]
CODES = frozenset({"foreign_import", "missing_module", "missing_name", "not_installed", "ambiguous_import"})
FOREIGN_ROOTS = ("logs", "core", "mozaiksai", "factory_app", "autogen")


def with_tool(folder: Path, source: str) -> Package:
    write_tool(folder / "P", "greet.py", f"{source}\n{TOOL}")
    return load(folder / "P", tools=TOOLS)


def codes(package: Package) -> list[tuple[str, bool]]:
    return [(finding.code, finding.is_blocking) for finding in package.findings if finding.code in CODES]


def load_greet_module(package: Package) -> ModuleType:
    modules = PackageModules(package)
    load_tool_functions(package, modules)
    load_hooks(package, modules)
    load_lifecycle(package, modules)
    return next(each for name, each in modules.executed.items() if name.endswith(".greet"))


SERVED_IMPORTS = [
    "from logs.logging_config import get_workflow_logger as found",
    "from logs.logging_config import get_core_logger as found",
    "from logs.tools_logs import get_tool_logger as found, log_tool_event",
    "from core.workflow.outputs.ui_tools import use_ui_tool as found",
    "from core.workflow.ui_tools import UIToolError as found",
    "from mozaiksai.core.workflow.ui_tools import emit_ui_surface as found, use_ui_tool, UIToolError",
    "from core.core_config import get_mongo_client as found",
    "from mozaiksai.core.core_config import get_mongo_client as found",
    "from mozaiksai.core.workflow.context.frozen import detach as found",
    "from autogen import ContextVariables as found",
    "from autogen.agentchat.group import ContextVariables as found",
    "from core import core_config as found",
    "from core.workflow import ui_tools as found",
    "from logs import logging_config as found, tools_logs",
    "import mozaiksai.core.core_config as found",
    "import core.core_config, core.workflow.ui_tools\nfound = core.core_config.get_mongo_client, core.workflow",
    "from logs.tools_logs import *\nfound = get_tool_logger",
    "found = __import__('core.core_config').core_config.get_mongo_client",
]


@pytest.mark.design("D4-64", "D1-63")
@pytest.mark.parametrize("source", SERVED_IMPORTS)
def test_a_served_import_works_in_tools_only(tmp_path: Path, source: str) -> None:
    package = with_tool(tmp_path, source)

    assert codes(package) == []
    assert load_greet_module(package).found is not None
    assert not [name for name in sys.modules if name.partition(".")[0] in FOREIGN_ROOTS]
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module(source.split()[1].split(",", maxsplit=1)[0])


def test_a_served_import_works_inside_of_functions_and_in_hooks(tmp_path: Path) -> None:
    write_tool(tmp_path / "P", "hook.py", "from logs.tools_logs import get_tool_logger\ndef h(agent, messages): ...\n")
    write_tool(tmp_path / "P", "step.py", "from core.core_config import get_mongo_client\ndef s(): ...\n")
    source = "def later():\n    from mozaiksai.core.workflow.context.frozen import detach\n    return detach([(1,)])"
    hooks = {"hooks": [{"hook_type": "update_agent_state", "hook_agent": "A", "filename": "hook.py", "function": "h"}]}
    tools = {"tools": TOOLS, "lifecycle_tools": [{"trigger": "before_chat", "file": "step.py", "function": "s"}]}
    write_tool(tmp_path / "P", "greet.py", f"{source}\n{TOOL}")

    package = load(tmp_path / "P", tools=tools, hooks=hooks)

    assert codes(package) == []
    assert load_greet_module(package).later() == [[1]]


@pytest.mark.parametrize("served", sorted(SERVED))
def test_a_served_module_has_the_names_that_the_checks_know(served: str) -> None:
    names = SERVED[served].names

    module = ServedModules(NO_DATABASES).import_module(served, sorted(names))

    assert module is not None
    assert {name for name in vars(module) if not name.startswith("_")} == names
    assert module.__name__ == served


def test_two_packages_do_not_share_a_served_module(tmp_path: Path) -> None:
    source = "from logs import logging_config as found"
    first, second = (load_greet_module(with_tool(tmp_path / each, source)).found for each in ("one", "two"))

    first.get_core_logger = None

    assert second.get_core_logger is not None
    assert importlib.import_module("workflows.compat.logging_config").get_core_logger is not None


MISSING_NAMES = [
    ("from logs.logging_config import setup_logging", "setup_logging from logs.logging_config"),
    ("from core.core_config import MOZAIKS_BACKEND_URL, get_mongo_client", "MOZAIKS_BACKEND_URL from core.core_config"),
    ("from mozaiksai.core.workflow.context.frozen import freeze", "freeze from mozaiksai.core.workflow.context.frozen"),
    ("from workflows.tools import use_ui_tol", "use_ui_tol from workflows.tools, which has no such name: did you mean"),
    ("from workflows.tools import a, b, ContextVariables", "a, b from workflows.tools, which has no such name: corr"),
]


@pytest.mark.parametrize(("source", "words"), MISSING_NAMES)
def test_a_name_that_is_not_there_blocks(tmp_path: Path, source: str, words: str) -> None:
    package = with_tool(tmp_path, source)

    [finding] = [finding for finding in package.findings if finding.code in CODES]
    assert (finding.code, finding.path, finding.is_blocking) == ("missing_name", "tools[0].file", True)
    assert f"greet.py imports {words}" in finding.message
    with pytest.raises(PackageDefect):
        load_greet_module(package)


@pytest.mark.parametrize(
    "source",
    [
        "def f():\n    from workflows.tools import nothing",
        "def f():\n    from logs.logging_config import setup_logging",
        "try:\n    from workflows.tools import nothing\nexcept ImportError:\n    pass",
    ],
)
def test_a_name_that_is_missing_when_called_does_not_block(tmp_path: Path, source: str) -> None:
    package = with_tool(tmp_path, source)

    assert codes(package) == [("missing_name", False)]
    assert load_greet_module(package).greet is not None


def test_a_missing_name_in_a_neighbour_blocks_where_loading_needs_it(tmp_path: Path) -> None:
    write_tool(tmp_path / "P", "near.py", "from workflows.tools import nothing\n")

    assert codes(with_tool(tmp_path, "import near")) == [("missing_name", True)]
    assert codes(with_tool(tmp_path, "def f():\n    import near")) == [("missing_name", False)]


@pytest.mark.parametrize(
    "source",
    [
        "from workflows.tools import use_ui_tool, UIToolError, ContextVariables",
        "from workflows.tools import get_context_variable, set_context_variable",
        "from workflows.tools import *",
        "import workflows.tools",
    ],
)
def test_what_our_module_for_tools_has_is_no_finding(tmp_path: Path, source: str) -> None:
    package = with_tool(tmp_path, source)

    assert codes(package) == []
    assert load_greet_module(package).greet is not None


@pytest.mark.parametrize(
    "source",
    [
        "import autogen",
        "from autogen import ConversableAgent",
        "from autogen import ContextVariables, ConversableAgent",
        "import logs",
        "from logs import runtime_artifacts",
        "from logs import logging_config, runtime_artifacts",
        "from core import nothing",
        "from mozaiksai.core.workflow.outputs.structured import load_workflow_structured_outputs",
        "from factory_app.workflows.Other.tools.x import y",
        "from factory_app.workflows import Other",
        "from factory_app.app.modules import x",
        "import importlib\nimportlib.import_module('core.core_config')",
    ],
)
def test_anything_else_of_another_runtime_stays_foreign(tmp_path: Path, source: str) -> None:
    package = with_tool(tmp_path, source)

    assert ("foreign_import", True) in codes(package)
    with pytest.raises(PackageDefect):
        load_greet_module(package)


OWN_IMPORTS = [
    "from workflows.P.tools.near import z as found",
    "from factory_app.workflows.P.tools.near import z as found",
    "from factory_app.workflows.P.tools import near as found",
    "from factory_app.workflows.P import tools as found",
    "from factory_app.workflows._shared.far import z as found",
    "from factory_app.workflows import _shared as found",
    "from workflows import _shared as found, tools",
    "import factory_app.workflows._shared.far\nfound = factory_app.workflows._shared.far.z",
    "import factory_app.workflows.P.tools.near as found",
    "import workflows._shared.far as found",
]


@pytest.mark.parametrize("source", OWN_IMPORTS)
def test_the_package_finds_itself_by_absolute_names(tmp_path: Path, source: str) -> None:
    (tmp_path / "_shared").mkdir()
    (tmp_path / "_shared" / "far.py").write_text("z = 1\n", encoding="utf-8")
    write_tool(tmp_path / "P", "near.py", "from factory_app.workflows._shared.far import z\n")
    package = with_tool(tmp_path, source)

    assert codes(package) == []
    assert load_greet_module(package).found is not None
    assert not [name for name in sys.modules if name.partition(".")[0] in FOREIGN_ROOTS]


@pytest.mark.parametrize("source", ["from factory_app.workflows.P.tools.no import z", "import workflows._shared.no"])
def test_an_absolute_name_of_no_file_is_missing(tmp_path: Path, source: str) -> None:
    (tmp_path / "_shared").mkdir()
    package = with_tool(tmp_path, source)

    assert codes(package) == [("missing_module", True)]
    with pytest.raises(PackageDefect):
        load_greet_module(package)


@pytest.mark.parametrize("what", ["logs", "core", "autogen", "factory_app"])
def test_an_installed_package_is_never_shadowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    files = {
        "logs": ("logs/logging_config.py", "from logs.logging_config import get_core_logger as found"),
        "core": ("core/workflow/ui_tools.py", "from core.workflow.ui_tools import use_ui_tool as found"),
        "autogen": ("autogen/__init__.py", "from autogen import ContextVariables as found"),
        "factory_app": ("factory_app/workflows/_shared/far.py", "from factory_app.workflows._shared.far import found"),
    }
    file, source = files[what]
    (tmp_path / "_shared").mkdir()
    (tmp_path / "_shared" / "far.py").write_text("found = 'own'\n", encoding="utf-8")
    place = tmp_path / "site" / file
    place.parent.mkdir(parents=True)
    for folder in place.relative_to(tmp_path / "site").parents:
        if folder != Path():
            (tmp_path / "site" / folder / "__init__.py").touch()
    name = source.removesuffix(" as found").rsplit(maxsplit=1)[-1]
    place.write_text(f"{name} = 'installed'\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path / "site")

    try:
        assert codes(with_tool(tmp_path, source)) in ([], [("ambiguous_import", False)])
        assert load_greet_module(with_tool(tmp_path, source)).found == "installed"
        assert sys.modules[what].__file__ == str(tmp_path / "site" / what / "__init__.py")
        if what in ("logs", "core"):  # the installed module is used, even if it has fewer names than ours
            lacking = with_tool(tmp_path / "more" / "other", f"import {what}.core_config")
            assert codes(lacking) == [("foreign_import", True)]
            with pytest.raises(PackageDefect):
                load_greet_module(lacking)
    finally:
        for each in [module for module in sys.modules if module.partition(".")[0] == what]:
            del sys.modules[each]


def test_a_folder_with_an_init_file_is_served_too(tmp_path: Path) -> None:
    write_tool(tmp_path / "P", "__init__.py", '"""Tools."""\n')
    write_tool(tmp_path / "P", "near.py", "from core.core_config import get_mongo_client as z\n")
    package = with_tool(tmp_path, "from logs.logging_config import get_core_logger\nfrom near import z as found")

    assert codes(package) == []
    assert load_greet_module(package).found.__name__ == "get_mongo_client"
    assert not list(tmp_path.rglob("__pycache__"))


def test_a_folder_with_an_init_file_leads_nowhere_else(tmp_path: Path) -> None:
    (tmp_path / "outside.py").write_text("z = 1\n", encoding="utf-8")
    write_tool(tmp_path / "P", "__init__.py", "")
    package = with_tool(tmp_path, "def f():\n    from .linked import z\ndef g():\n    from . import greet, nothing")
    (tmp_path / "P" / "tools" / "linked.py").symlink_to(tmp_path / "outside.py")
    module = load_greet_module(package)

    with pytest.raises(ModuleNotFoundError, match="linked"):
        module.f()
    with pytest.raises(ImportError, match="cannot import name 'nothing'"):
        module.g()


def test_a_packages_own_module_of_such_a_name_is_meant(tmp_path: Path) -> None:
    write_tool(tmp_path / "P", "logs/__init__.py", "")
    write_tool(tmp_path / "P", "logs/logging_config.py", "get_core_logger = 'own'\n")
    package = with_tool(tmp_path, "from logs.logging_config import get_core_logger as found")

    assert codes(package) == []
    assert load_greet_module(package).found == "own"


@pytest.mark.design("D1-52")
def test_no_database_is_given_without_the_operators_word(tmp_path: Path) -> None:
    package = with_tool(tmp_path, "from core.core_config import get_mongo_client as found")

    with pytest.raises(DatabaseNotAllowedError, match="in a worker and in `unattended run` only"):
        load_greet_module(package).found()
