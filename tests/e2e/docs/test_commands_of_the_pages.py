"""Every shell block of every page is run as a reader would run it, or says why not.

The README comes first: it starts the product, and what the other pages do, they do with that one.
"""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.docs.pages import AFTER_GUIDE, GUIDE, MARKS, PAGES, README, SHELLS, blocks_of, shell_blocks
from tests.e2e.docs.reader import Reader
from tests.e2e.docs.readers import new_reader
from tests.unit.docs.test_docs import ROOT
from tests.unit.ops.test_one_run_guide import write_guide
from workflows.package.catalog import LIBRARY

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

REFERENCE = [page for page in PAGES if page not in (README, GUIDE, *AFTER_GUIDE) and shell_blocks(page)]


AUTHORING = {ROOT / "docs" / name for name in ("package-format.md", "testing-packages.md")}


@pytest.fixture(scope="module")
def after_readme() -> Iterator[Reader]:
    with new_reader() as reader:
        reader.read_page(README)
        write_guide(reader.cwd.parent / "authoring")
        shutil.copytree(LIBRARY / "OrderFollowUp", reader.cwd / "workflows" / "OrderFollowUp")
        yield reader


def test_the_readme(after_readme: Reader) -> None:
    """And what it says between its blocks: a run is started, and is listed."""
    run = after_readme.unattended("enqueue", "Morning", "--app", "acme", "--input", '{"region": "eu"}')

    assert after_readme.run_in("succeeded") == run["run_id"]


@pytest.mark.parametrize("page", REFERENCE, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page(after_readme: Reader, page: Path) -> None:
    with after_readme.as_it_is():
        if page in AUTHORING:
            after_readme.cwd = after_readme.cwd.parent / "authoring"
        after_readme.read_page(page)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_block_is_run_or_says_why_not(page: Path) -> None:
    for block in blocks_of(page):
        looks_typed = re.search(r"^(\$ |unattended |make |docker |curl )", block.text, re.MULTILINE)
        assert block.language in SHELLS or not looks_typed, f"{block.place}: say bash, so that it is run"
        if block.language in SHELLS:
            assert {name for name, _ in block.marks} <= set(MARKS), f"{block.place}: see tests/e2e/docs/pages.py"
        reason = block.mark("not-run")
        assert reason is None or len(reason) > 10, f"{block.place}: say why it is not run"
