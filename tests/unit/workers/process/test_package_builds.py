"""Package builds: the reason why a package is not started."""

from pathlib import Path

import pytest

from tests.unit.workflows.packages import load, write_package, write_tool
from workers.process.package_builds import PackageBuilds
from workflows.chat.agents.built_packages import PackageCache
from workflows.chat.chat_errors import PackageDefect
from workflows.chat.package_code.tool_threads import ToolThreads
from workflows.chat.providers.model_registry import ModelRegistry
from workflows.package.catalog import Catalog
from workflows.package.environment_requirements import missing_environment_error


async def why_not(folder: Path, workflow: str) -> str:
    builds = PackageBuilds(Catalog([folder]), PackageCache(ModelRegistry({}, str), ToolThreads(1)))
    with pytest.raises(PackageDefect) as caught:
        await builds.get(workflow, version=None)
    builds.close()
    return str(caught.value)


@pytest.mark.design("D1-1")
async def test_a_refused_package_is_named_with_its_first_fault(tmp_path: Path) -> None:
    folder = write_package(tmp_path / "P", tools="- [")

    reason = await why_not(tmp_path, "Small")

    assert reason.startswith("Small is not started: error: tools.yaml: line 2, column 1: did not find expected node")
    assert reason.endswith(f" [unreadable]; see `unattended validate {folder}`")


async def test_a_package_that_needs_what_is_not_executed_is_not_built(tmp_path: Path) -> None:
    batches = write_package(tmp_path / "P") / "extended_orchestration"
    batches.mkdir()
    (batches / "task_batches.yaml").write_text("batches: [{id: one}]")

    assert "the package starts no runs [task_batches]" in await why_not(tmp_path, "Small")


async def test_an_unknown_workflow_is_named_with_the_places_that_were_looked_in(tmp_path: Path) -> None:
    assert await why_not(tmp_path, "Absent") == f"no package named Absent in {tmp_path}"


REQUIRING = {"workflow_name": "Small", "initial_agent": "A", "requires": {"env": ["SLACK_URL", "MAIL_KEY"]}}


@pytest.mark.parametrize(
    ("environment", "problem"),
    [
        ({"MAIL_KEY": "s3cr3t"}, "the environment variable SLACK_URL is not set, and Small requires it"),
        ({"MAIL_KEY": "s3cr3t", "SLACK_URL": ""}, "the environment variable SLACK_URL is not set"),
        ({}, "required environment variables are not set: SLACK_URL, MAIL_KEY"),
    ],
)
async def test_a_package_is_not_imported_without_a_variable_that_it_requires(
    tmp_path: Path, environment: dict[str, str], problem: str
) -> None:
    tools = {"tools": [{"agent": "A", "file": "imported.py", "function": "act"}]}
    folder = write_package(tmp_path / "P", orchestrator=REQUIRING, tools=tools)
    source = f"from pathlib import Path\n\nPath({str(tmp_path / 'imported')!r}).touch()\n\ndef act(): ...\n"
    write_tool(folder, "imported.py", source)
    shop = PackageCache(ModelRegistry({}, str), ToolThreads(1))
    builds = PackageBuilds(Catalog([tmp_path]), shop, environment=environment)

    for _ in range(2):
        with pytest.raises(PackageDefect) as caught:
            await builds.get("Small", version=None)
        assert str(caught.value).startswith(problem)
        assert "set it in the environment of the worker processes" in str(caught.value)
        assert "s3cr3t" not in str(caught.value)
        assert not caught.value.outcome().transient
        assert not (tmp_path / "imported").exists()
    builds.close()


def test_of_many_variables_the_first_are_named(tmp_path: Path) -> None:
    names = [f"V{number}" for number in range(12)]
    package = load(tmp_path / "P", orchestrator={**REQUIRING, "requires": {"env": names}})

    error = missing_environment_error(package, {"V0": "x"})

    assert error is not None
    assert error.startswith(
        "required environment variables are not set: V1, V2, V3, V4, V5, V6, V7, V8, V9, V10, 1 more"
    )
