"""What a command says of an error that is the user's or the world's, and the exit code that goes with it."""

import errno
import re

import click

from ops.cli.command import PROGRAM
from workers.services import NothingRunning
from workers.settings import SettingsError

SAID_NO = 1
WRONG_USE = 2
_UNTOLD = re.compile(r",? (?:full error|Topology Description):| \(configured timeouts:")
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def explained(error: Exception) -> tuple[str, int] | None:
    """One line for the user; None of what is nobody's mistake but ours."""
    if isinstance(error, SettingsError):
        return str(error), SAID_NO if isinstance(error, NothingRunning) else WRONG_USE
    if isinstance(error, click.ClickException):
        return _of_use(error), WRONG_USE
    if isinstance(error, OSError) and error.errno in _FULL:
        return f"{error.filename or 'standard output'} cannot be written: {error.strerror}", SAID_NO
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename} cannot be used: {error.strerror}; correct its name or its permissions", SAID_NO
    return _of_packages(error) or _of_mongodb(error)


def _of_use(error: click.ClickException) -> str:
    """In our manner: one line, in small letters, with the command whose help knows more."""
    said = " ".join(error.format_message().split()).rstrip(".")
    said = said[:1].lower() + said[1:]
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is None:
        return said
    path = context.command_path.replace(context.find_root().info_name or PROGRAM, PROGRAM, 1)
    return f"{said}{' See' if said.endswith('?') else '; see'} `{path} --help`"


def _of_packages(error: Exception) -> tuple[str, int] | None:
    from ops.embedded.errors import EmbeddedError
    from workflows.models_file import ModelsFileError
    from workflows.operator_file import OperatorFileError
    from workflows.package.findings import PackageError

    if isinstance(error, PackageError):
        return str(error.finding), SAID_NO
    if isinstance(error, EmbeddedError):
        return str(error), SAID_NO
    return (str(error), WRONG_USE) if isinstance(error, ModelsFileError | OperatorFileError) else None


def _of_mongodb(error: Exception) -> tuple[str, int] | None:
    from pymongo.errors import ConfigurationError, OperationFailure, PyMongoError

    if isinstance(error, ConfigurationError):
        return f"UNATTENDED_MONGODB_URL cannot be used: {error}", WRONG_USE
    if isinstance(error, PyMongoError):
        said = _UNTOLD.split(str(error), maxsplit=1)[0][:200].rstrip(".")
        how = "refuses" if isinstance(error, OperationFailure) else "does not answer"
        return f"MongoDB {how}: {said}; run `unattended doctor`", SAID_NO
    return None
