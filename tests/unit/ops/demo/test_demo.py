"""The demo's directory: removed when it is of no use, kept for its logs after a failure."""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from ops.demo.demo import run_demo
from ops.embedded.binaries import ServerBinary
from ops.embedded.embedded_error import EmbeddedError
from workers.embedded_services import Services


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("ops.demo.demo._stop_on_sigterm", lambda: None)
    return tmp_path


def files_left_in(folder: Path) -> list[Path]:
    return list(folder.iterdir())


async def test_too_little_space_leaves_no_directory(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def found() -> ServerBinary:
        return ServerBinary(Path("server"), "8.0", "PATH")

    monkeypatch.setattr("ops.embedded.embedded_servers.find_mongod", found)
    monkeypatch.setattr("ops.embedded.embedded_servers.find_redis", found)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1_000_000))

    with pytest.raises(EmbeddedError, match="free space"):
        await run_demo(None, as_json=False)

    assert files_left_in(temporary) == []


async def test_no_server_leaves_no_directory_and_a_given_one_alone(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent() -> ServerBinary:
        raise EmbeddedError("no mongod here")

    monkeypatch.setattr("ops.embedded.embedded_servers.find_mongod", absent)
    monkeypatch.setattr("ops.embedded.embedded_servers.find_redis", absent)
    given = temporary / "given"
    given.mkdir()

    for data_dir in (None, given):
        with pytest.raises(EmbeddedError, match="no mongod"):
            await run_demo(data_dir, as_json=False)

    assert files_left_in(temporary) == [given]


async def test_what_was_started_leaves_its_logs(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @asynccontextmanager
    async def fails(folder: Path) -> AsyncIterator[Services]:
        (folder / "logs").mkdir()
        if folder.name:
            raise EmbeddedError("mongod ended")
        yield Services(None, None, owner_pid=0)

    monkeypatch.setattr("ops.demo.demo.embedded_servers", fails)

    with pytest.raises(EmbeddedError, match="mongod ended"):
        await run_demo(None, as_json=False)

    [folder] = files_left_in(temporary)
    assert files_left_in(folder) == [folder / "logs"]
