"""Hanging package builds: their runs fail in time, and no others wait."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.workflows.packages import ORCHESTRATOR, write_package, write_tool
from workers.process.package_builds import BUILDERS, SLOT_TIMEOUT_S, PackageBuilds
from workflows.chat.agents.built_packages import BuiltPackage, PackageCache
from workflows.chat.chat_errors import PackageDefect, PackageSlow
from workflows.chat.package_code.tool_threads import ToolThreads
from workflows.chat.providers.model_registry import ModelRegistry
from workflows.models_file import ScriptModel
from workflows.outcome import OutcomeKind
from workflows.package.catalog import Catalog

BUILD_TIMEOUT_S = 0.4
TOOL = [{"agent": "A", "file": "work.py", "function": "work"}]


class SlowPackages:
    """Imports of `slow` packages stop at their first line until `finish_build`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._free = folder / "free"

    def write(self, name: str, first_line: str = "") -> None:
        package = write_package(self.folder / name, orchestrator={**ORCHESTRATOR, "workflow_name": name}, tools=TOOL)
        write_tool(package, "work.py", f"{first_line}\ndef work():\n    return 1\n")

    def write_slow(self, name: str, last_line: str = "") -> None:
        began = f"with open({str(self.folder / name) + '-began'!r}, 'a') as file: file.write('x')"
        waits = f"while not Path({str(self._free)!r}).exists(): time.sleep(0.005)"
        self.write(name, f"import time\nfrom pathlib import Path\n{began}\n{waits}\n{last_line}")

    def count_builds(self, name: str) -> int:
        return len((self.folder / f"{name}-began").read_text())

    def finish_build(self) -> None:
        self._free.touch()


@pytest.fixture
def packages(tmp_path: Path) -> Iterator[SlowPackages]:
    packages = SlowPackages(tmp_path)
    yield packages
    packages.finish_build()  # otherwise each build would leave a thread behind


@pytest.fixture
def slot_timeout_s() -> float:
    return SLOT_TIMEOUT_S


@pytest.fixture
def builds(packages: SlowPackages, slot_timeout_s: float) -> Iterator[PackageBuilds]:
    answers = packages.folder / "answers.yaml"
    answers.write_text("default: {text: ok}")
    models = ModelRegistry({"default": ScriptModel(provider="script", file=answers)}, str)
    builds = PackageBuilds(
        Catalog([packages.folder]),
        PackageCache(models, ToolThreads(1)),
        timeout_s=BUILD_TIMEOUT_S,
        slot_timeout_s=slot_timeout_s,
    )
    yield builds
    builds.close()


async def name_of(builds: PackageBuilds, workflow: str) -> str:
    built: BuiltPackage = await builds.get(workflow, version=None)
    return built.package.name


async def test_a_hanging_build_is_a_transient_fault_with_its_remedy(
    packages: SlowPackages, builds: PackageBuilds
) -> None:
    packages.write_slow("Hangs")
    began = time.monotonic()

    waiting = await asyncio.gather(*(name_of(builds, "Hangs") for _ in range(20)), return_exceptions=True)

    assert BUILD_TIMEOUT_S <= time.monotonic() - began < BUILD_TIMEOUT_S + 2
    [slow, *_] = waiting
    assert all(isinstance(build, PackageSlow) for build in waiting)
    assert isinstance(slow, PackageSlow)
    outcome = slow.outcome()
    assert (outcome.kind, outcome.transient, outcome.retry_after_s) == (
        OutcomeKind.PACKAGE_ERROR,
        True,
        BUILD_TIMEOUT_S,
    )
    assert outcome.reason.startswith("importing the files of Hangs takes longer than 0.4 s: what connects, waits or")


async def test_while_it_hangs_further_runs_fail_at_once_and_build_nothing(
    packages: SlowPackages, builds: PackageBuilds
) -> None:
    packages.write_slow("Hangs")
    with pytest.raises(PackageSlow):
        await builds.get("Hangs", version=None)

    began = time.monotonic()
    for _ in range(10):
        with pytest.raises(PackageSlow):
            await builds.get("Hangs", version=None)

    assert time.monotonic() - began < BUILD_TIMEOUT_S
    assert packages.count_builds("Hangs") == 1


@pytest.mark.parametrize("ends", ["well", "badly"])
async def test_once_it_has_ended_the_next_run_finds_what_became_of_it(
    packages: SlowPackages, builds: PackageBuilds, ends: str
) -> None:
    packages.write_slow("Hangs", last_line="" if ends == "well" else "raise OSError('no such host')")
    with pytest.raises(PackageSlow):
        await builds.get("Hangs", version=None)
    packages.finish_build()

    async def found() -> str:
        async with asyncio.timeout(10):
            while True:
                try:
                    return await name_of(builds, "Hangs")
                except PackageSlow:
                    await asyncio.sleep(0.01)
                except PackageDefect as error:
                    return str(error)

    assert await found() in ("Hangs", "work.py failed when it was loaded: OSError: no such host (tools/work.py:5)")
    assert packages.count_builds("Hangs") == (1 if ends == "well" else 2)


@pytest.mark.parametrize("slot_timeout_s", [0.05])
async def test_hanging_builds_up_to_the_slots_delay_no_other(packages: SlowPackages, builds: PackageBuilds) -> None:
    """Not even before they time out."""
    hanging = [f"Hangs{number}" for number in range(BUILDERS)]
    for name in hanging:
        packages.write_slow(name)
    packages.write("Well")
    packages.write("Later")

    waiting = [asyncio.create_task(name_of(builds, name)) for name in hanging]
    await asyncio.sleep(0)
    async with asyncio.timeout(10):
        assert await name_of(builds, "Well") == "Well"
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)

    assert all(isinstance(outcome, PackageSlow) for outcome in outcomes)
    async with asyncio.timeout(2):
        assert await name_of(builds, "Later") == "Later"


@pytest.mark.parametrize("slot_timeout_s", [BUILD_TIMEOUT_S])
async def test_builds_that_wait_for_a_slot_do_not_use_up_their_time(
    packages: SlowPackages, builds: PackageBuilds
) -> None:
    hanging = [f"Hangs{number}" for number in range(2 * BUILDERS)]
    for name in hanging:
        packages.write_slow(name)
    packages.write("Well")

    waiting = [asyncio.create_task(name_of(builds, name)) for name in hanging]
    await asyncio.sleep(0)
    async with asyncio.timeout(10):
        assert await name_of(builds, "Well") == "Well"  # after twice the time limit of a build
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_a_worker_that_stops_waits_for_none(packages: SlowPackages, builds: PackageBuilds) -> None:
    packages.write_slow("Hangs")
    waiting = asyncio.create_task(name_of(builds, "Hangs"))
    await asyncio.sleep(0.1)

    builds.close()

    async with asyncio.timeout(BUILD_TIMEOUT_S / 2):
        with pytest.raises(asyncio.CancelledError):
            await waiting


@pytest.mark.parametrize("raised", ["KeyboardInterrupt", "SystemExit(3)", "GeneratorExit", "BaseException('odd')"])
async def test_what_would_end_the_loop_of_all_runs_is_a_fault_of_the_package(
    packages: SlowPackages, builds: PackageBuilds, raised: str
) -> None:
    packages.write("Ends", f"raise {raised}\n")
    packages.write("Unreadable")
    code = f"class Odd:\n    @property\n    def __signature__(self):\n        raise {raised}\n"
    write_tool(packages.folder / "Unreadable", "work.py", f"{code}\n    def __call__(self): ...\n\nwork = Odd()\n")

    for workflow in ("Ends", "Unreadable"):
        with pytest.raises(PackageDefect, match=raised.partition("(")[0]):
            await builds.get(workflow, version=None)
