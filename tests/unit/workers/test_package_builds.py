"""Package builds: who asks for a package that is not started is told why."""

from pathlib import Path

import pytest

from tests.unit.workflows.packages import write_package
from workers.process.package_builds import PackageBuilds
from workflows.chat.agents import AgentShop
from workflows.chat.errors import PackageDefect
from workflows.chat.models import Models
from workflows.chat.tool_threads import ToolThreads
from workflows.package.catalog import Catalog


async def why_not(folder: Path, workflow: str) -> str:
    builds = PackageBuilds(Catalog([folder]), AgentShop(Models({}, str), ToolThreads(1)))
    with pytest.raises(PackageDefect) as caught:
        await builds.get(workflow, version=None)
    builds.close()
    return str(caught.value)


async def test_a_refused_package_is_named_with_its_first_fault(tmp_path: Path) -> None:
    folder = write_package(tmp_path / "P", tools="- [")

    said = await why_not(tmp_path, "Small")

    assert said.startswith("Small is not started: error: tools.yaml: line 2, column 1: did not find expected node")
    assert said.endswith(f" [unreadable]; see `unattended validate {folder}`")


async def test_a_package_that_needs_what_is_not_executed_is_not_built(tmp_path: Path) -> None:
    batches = write_package(tmp_path / "P") / "extended_orchestration"
    batches.mkdir()
    (batches / "task_batches.yaml").write_text("batches: [{id: one}]")

    assert "runs of it are not started [task_batches]" in await why_not(tmp_path, "Small")


async def test_an_unknown_workflow_is_named_with_the_places_that_were_looked_in(tmp_path: Path) -> None:
    assert await why_not(tmp_path, "Absent") == f"no package named Absent in {tmp_path}"
