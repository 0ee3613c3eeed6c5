"""The doctor's check of the operator's file."""

import asyncio

from ops.doctor.checks import Check, error_line
from workers.settings import Settings
from workflows.operator_file import OPERATOR_FILE_NAME, OperatorFileError, find_operator_path, read_operator_file


async def check_operator_file(settings: Settings) -> list[Check]:
    return [await asyncio.to_thread(_check_operator_file, settings)]


def _check_operator_file(settings: Settings) -> Check:
    path = find_operator_path(settings.config)
    if path is None:
        return Check("operator's file", "ok", f"none: there is no ./{OPERATOR_FILE_NAME}, and UNATTENDED_CONFIG names none")
    try:
        file = read_operator_file(path, own_database=settings.database)
    except OperatorFileError as error:
        return Check("operator's file", "problem", error_line(error), "correct the file, or set UNATTENDED_CONFIG")
    databases = ", ".join(file.compat.databases) or "none"
    return Check("operator's file", "ok", f"databases for tools (compat): {databases} ({path})")
