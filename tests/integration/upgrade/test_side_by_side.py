"""The version before and this one work on the same runs at the same time, where its code is in the repository."""

import json
import shutil
from pathlib import Path

import pytest

from tests.integration.upgrade.recorded_data import DATA
from tests.integration.upgrade.released_version import UnknownCommitError, unpack_version
from tests.integration.upgrade.side_by_side import run_side_by_side

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]


async def test_both_versions_end_every_run_once(tmp_path: Path) -> None:
    commit = json.loads((DATA / "_recording.json").read_text(encoding="utf-8"))["commit"]
    if shutil.which("git") is None:
        pytest.skip("git is not installed here: apt-get install git")
    try:
        with unpack_version(commit) as old:
            judgement = await run_side_by_side(old, tmp_path)
    except UnknownCommitError:
        # A shallow clone or an unpacked release: `make upgrade` is for checkouts with history.
        pytest.skip(f"the version before, {commit[:8]}, is not in this checkout's history: git fetch --unshallow")

    assert judgement.wrong == []
