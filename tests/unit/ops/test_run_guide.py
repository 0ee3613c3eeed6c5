"""docs/testing-packages.md: its script can be read, and its tests pass, on the package of docs/package-format.md."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.docs.test_docs import ROOT, Block, blocks
from workers.local_run.run_package import run_package_async
from workflows.chat.providers.script import read_script

GUIDE = ROOT / "docs" / "testing-packages.md"
FORMAT = ROOT / "docs" / "package-format.md"


def write(folder: Path, found: Block) -> Path:
    assert found.file is not None
    path = folder / found.file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(found.text, encoding="utf-8")
    return path


def write_guide(folder: Path) -> dict[str, Path]:
    """Everything that the two pages name as a file, where the guide says it is."""
    for each in blocks(FORMAT):
        if each.file:
            write(folder / "workflows" / "Refunds", each)
    return {each.file: write(folder, each) for each in blocks(GUIDE) if each.file}


@pytest.fixture
def guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    for name in ("ENVIRONMENT", "SANDBOX", "UNATTENDED_MAX_ATTEMPTS"):
        monkeypatch.delenv(name, raising=False)
    return write_guide(tmp_path)


def test_the_guide_has_a_script_and_a_test(guide: dict[str, Path]) -> None:
    assert set(guide) == {"refund.yaml", "tests/test_refunds.py"}


async def test_its_script_takes_the_package_to_its_end(guide: dict[str, Path], tmp_path: Path) -> None:
    script = guide["refund.yaml"]

    report = await run_package_async(
        tmp_path / "workflows" / "Refunds",
        script=script,
        input={"order_id": "7"},
        context={"order": {"status": "paid", "total": 700}},
    )

    assert set(read_script(script).answers) == {"Clerk", "Writer"}
    assert report.speakers == ["Clerk", "Writer"]
    assert report.succeeded


def test_its_tests_pass(guide: dict[str, Path]) -> None:
    file = guide["tests/test_refunds.py"]
    names: dict[str, Any] = {"__file__": str(file), "__name__": "test_refunds"}
    exec(compile(file.read_text(encoding="utf-8"), file, "exec"), names)  # noqa: S102 -- our own page
    tests: list[Callable[[], None]] = [value for name, value in names.items() if name.startswith("test_")]

    assert len(tests) == 4
    for test in tests:
        test()
