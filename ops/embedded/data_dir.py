"""The data directory: one owner at a time, a known format, room to write."""

import asyncio
import fcntl
import json
import os
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ops.embedded.embedded_error import EmbeddedError
from workers.embedded_services import process_exists

FORMAT = 1
MIN_FREE_BYTES = 500_000_000
_OTHER_DIR_ADVICE = "choose another --data-dir"
LEFTOVER_WAIT_S = 10.0


@dataclass(frozen=True, slots=True)
class DataDir:
    path: Path
    # Servers inherit this descriptor: the directory stays locked while one of them still writes to it.
    lock_fd: int

    def folder(self, name: str) -> Path:
        folder = self.path / name
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise _not_writable_error(folder, error) from None
        return folder

    def log_file(self, name: str) -> Path:
        return self.folder("logs") / f"{name}.log"

    def read_ports(self) -> dict[str, int]:
        try:
            ports = json.loads((self.path / "ports.json").read_text(encoding="utf-8"))
            return {str(name): int(port) for name, port in ports.items()}
        except (OSError, ValueError, AttributeError, TypeError):
            return {}  # the file only keeps ports stable between starts

    def write_ports(self, ports: dict[str, int]) -> None:
        _write_json(self.path / "ports.json", self.read_ports() | ports)


@asynccontextmanager
async def open_data_dir(path: Path, *, leftover_wait_s: float = LEFTOVER_WAIT_S) -> AsyncIterator[DataDir]:
    owned = _open_lock_file(path)
    try:
        check_format(owned.path)
        check_free_space(owned.path)
        await _lock(owned, leftover_wait_s)
        _write_format(owned.path)
        yield owned
    finally:
        os.close(owned.lock_fd)


def _open_lock_file(path: Path) -> DataDir:
    try:
        path = path.expanduser().resolve()
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        return DataDir(path, os.open(path / "lock", os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        raise _not_writable_error(path, error) from None


def _not_writable_error(path: Path, error: OSError) -> EmbeddedError:
    return EmbeddedError(f"the data directory {path} cannot be written ({error.strerror}); {_OTHER_DIR_ADVICE}")


def _write_format(path: Path) -> None:
    if (path / "format.json").exists():
        return
    try:
        _write_json(path / "format.json", {"format": FORMAT})
    except OSError as error:
        raise _not_writable_error(path, error) from None


def check_format(path: Path) -> None:
    try:
        found = json.loads((path / "format.json").read_text(encoding="utf-8"))["format"]
    except FileNotFoundError:
        return
    except (OSError, ValueError, KeyError, TypeError):
        found = None
    if not isinstance(found, int):
        raise EmbeddedError(
            f'{path / "format.json"} is damaged; restore it as {{"format": {FORMAT}}}, or {_OTHER_DIR_ADVICE}'
        )
    if found > FORMAT:
        raise EmbeddedError(
            f"{path} has format {found}, written by a newer unattended (this one knows {FORMAT}); "
            f"upgrade, or {_OTHER_DIR_ADVICE}"
        )


def check_free_space(path: Path) -> None:
    free = shutil.disk_usage(path).free
    if free < MIN_FREE_BYTES:
        raise EmbeddedError(
            f"{path} has {free // 1_000_000} MB of free space, the embedded servers need "
            f"{MIN_FREE_BYTES // 1_000_000} MB; free some, or {_OTHER_DIR_ADVICE}"
        )


async def _lock(data_dir: DataDir, leftover_wait_s: float) -> None:
    path, lock_fd = data_dir.path, data_dir.lock_fd
    give_up_at = time.monotonic() + leftover_wait_s
    while not _try_lock(lock_fd):
        owner = os.pread(lock_fd, 20, 0).decode(errors="replace").strip()
        if owner.isdecimal() and process_exists(int(owner)):
            raise EmbeddedError(f"{path} is in use by process {owner} (unattended up); stop it, or {_OTHER_DIR_ADVICE}")
        # Either the owner was killed, and its servers hold the lock until they have ended too; or it has just started,
        # and has not written its process id yet.
        if time.monotonic() > give_up_at:
            raise EmbeddedError(
                f"{path} is in use by servers that process {owner} left; end them, or {_OTHER_DIR_ADVICE}"
            )
        await asyncio.sleep(0.02)
    os.ftruncate(lock_fd, 0)
    os.pwrite(lock_fd, str(os.getpid()).encode(), 0)


def _try_lock(lock_fd: int) -> bool:
    try:
        fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _write_json(path: Path, value: dict[str, Any]) -> None:
    new_file = path.with_suffix(".new")
    new_file.write_text(json.dumps(value), encoding="utf-8")
    new_file.replace(path)
