import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from ops.embedded.data_dir import open_data_dir
from ops.embedded.embedded_error import EmbeddedError

HOLD_THE_LOCK = """
import fcntl, os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.flock(fd, fcntl.LOCK_EX)
os.ftruncate(fd, 0)
os.pwrite(fd, sys.argv[2].encode() or str(os.getpid()).encode(), 0)
print("held", flush=True)
sys.stdin.read()
"""


def hold_lock(directory: Path, *, owner: str = "") -> subprocess.Popen[bytes]:
    argv = [sys.executable, "-c", HOLD_THE_LOCK, str(directory / "lock"), owner]
    holder = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    return holder


def release(holder: subprocess.Popen[bytes]) -> None:
    assert holder.stdin is not None
    assert holder.stdout is not None
    holder.stdin.close()
    holder.wait()
    holder.stdout.close()


async def test_is_created_for_its_owner_only_with_a_format(tmp_path: Path) -> None:
    async with open_data_dir(tmp_path / "a" / "data") as owned:
        assert owned.path.stat().st_mode & 0o777 == 0o700
        assert owned.folder("mongodb").stat().st_mode & 0o777 == 0o700
        assert json.loads((owned.path / "format.json").read_text(encoding="utf-8")) == {"format": 1}


async def test_is_free_again_afterwards(tmp_path: Path) -> None:
    for _ in range(2):
        async with open_data_dir(tmp_path) as owned:
            assert (owned.path / "lock").read_text(encoding="utf-8") == str(os.getpid())


async def test_ports_are_remembered(tmp_path: Path) -> None:
    async with open_data_dir(tmp_path) as owned:
        owned.write_ports({"redis": 1000, "mongodb": 2000})
        owned.write_ports({"redis": 1001})

        assert owned.read_ports() == {"redis": 1001, "mongodb": 2000}


@pytest.mark.parametrize("content", ["", "[]", "7", '{"redis": "x"}', '{"redis": null}'])
async def test_damaged_ports_are_forgotten(tmp_path: Path, content: str) -> None:
    (tmp_path / "ports.json").write_text(content, encoding="utf-8")

    async with open_data_dir(tmp_path) as owned:
        assert owned.read_ports() == {}


async def test_a_newer_format_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "format.json").write_text('{"format": 2}', encoding="utf-8")

    with pytest.raises(EmbeddedError, match="has format 2, written by a newer unattended"):
        async with open_data_dir(tmp_path):
            pass

    assert (tmp_path / "format.json").read_text(encoding="utf-8") == '{"format": 2}'


@pytest.mark.parametrize("content", ["", "{", "[]", '{"format": "new"}', "{}"])
async def test_a_damaged_format_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "format.json").write_text(content, encoding="utf-8")

    with pytest.raises(EmbeddedError, match=r"format.json is damaged"):
        async with open_data_dir(tmp_path):
            pass


async def test_a_second_owner_learns_the_first_ones_name(tmp_path: Path) -> None:
    holder = hold_lock(tmp_path)

    with pytest.raises(EmbeddedError) as caught:
        async with open_data_dir(tmp_path):
            pass
    release(holder)

    assert str(caught.value) == (
        f"{tmp_path} is in use by process {holder.pid} (unattended up); stop it, or choose another --data-dir"
    )


async def test_servers_that_a_killed_owner_left_are_waited_for(tmp_path: Path) -> None:
    gone = hold_lock(tmp_path)
    release(gone)
    holder = hold_lock(tmp_path, owner=str(gone.pid))
    assert holder.stdin is not None
    holder.stdin.close()

    async with open_data_dir(tmp_path) as owned:
        assert owned.path == tmp_path
    release(holder)


async def test_servers_that_never_end_are_not_waited_for_forever(tmp_path: Path) -> None:
    gone = hold_lock(tmp_path)
    release(gone)
    holder = hold_lock(tmp_path, owner=str(gone.pid))

    with pytest.raises(EmbeddedError, match=f"in use by servers that process {gone.pid} left"):
        async with open_data_dir(tmp_path, leftover_wait_s=0.05):
            pass
    release(holder)


async def test_no_space_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=12_345_678))

    with pytest.raises(EmbeddedError, match="has 12 MB of free space, the embedded servers need 500 MB"):
        async with open_data_dir(tmp_path):
            pass


async def test_a_file_in_its_place_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "taken").touch()

    with pytest.raises(EmbeddedError, match=r"cannot be written \(File exists\); choose another --data-dir"):
        async with open_data_dir(tmp_path / "taken"):
            pass


async def test_a_place_that_cannot_be_written_is_one_line() -> None:
    # A file system that refuses even root.
    with pytest.raises(EmbeddedError, match=r"the data directory /proc/unattended cannot be written"):
        async with open_data_dir(Path("/proc/unattended")):
            pass
