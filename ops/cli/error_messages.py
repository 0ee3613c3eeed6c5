"""What a command says of an error that is the user's or the world's, and the exit code that goes with it."""

import errno
import re

import click

from ops.cli.command import PROGRAM
from workers.embedded_services import NothingRunning
from workers.settings import SettingsError

EXIT_FAILURE = 1
EXIT_USAGE = 2
_DRIVER_DETAILS = re.compile(r",? (?:full error|Topology Description):| \(configured timeouts:")
_DISK_FULL_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def describe_error(error: Exception) -> tuple[str, int] | None:
    """One line for the user; None of what is nobody's mistake but ours."""
    if isinstance(error, SettingsError):
        return str(error), EXIT_FAILURE if isinstance(error, NothingRunning) else EXIT_USAGE
    if isinstance(error, click.ClickException):
        return _describe_usage_error(error), EXIT_USAGE
    if isinstance(error, OSError) and error.errno in _DISK_FULL_ERRNOS:
        return f"{error.filename or 'standard output'} cannot be written: {error.strerror}", EXIT_FAILURE
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename} cannot be used: {error.strerror}; correct its name or its permissions", EXIT_FAILURE
    return _describe_package_error(error) or _describe_mongodb_error(error)


def _describe_usage_error(error: click.ClickException) -> str:
    """In our manner: one line, in small letters, with the command whose help knows more."""
    said = " ".join(error.format_message().split()).rstrip(".")
    said = said[:1].lower() + said[1:]
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is None:
        return said
    path = context.command_path.replace(context.find_root().info_name or PROGRAM, PROGRAM, 1)
    return f"{said}{' See' if said.endswith('?') else '; see'} `{path} --help`"


def _describe_package_error(error: Exception) -> tuple[str, int] | None:
    from ops.embedded.embedded_error import EmbeddedError
    from workflows.models_file import ModelsFileError
    from workflows.operator_file import OperatorFileError
    from workflows.package.findings import PackageError

    if isinstance(error, PackageError):
        return str(error.finding), EXIT_FAILURE
    if isinstance(error, EmbeddedError):
        return str(error), EXIT_FAILURE
    return (str(error), EXIT_USAGE) if isinstance(error, ModelsFileError | OperatorFileError) else None


def _describe_mongodb_error(error: Exception) -> tuple[str, int] | None:
    from pymongo.errors import ConfigurationError, OperationFailure, PyMongoError

    if isinstance(error, ConfigurationError):
        return f"UNATTENDED_MONGODB_URL cannot be used: {error}", EXIT_USAGE
    if isinstance(error, PyMongoError):
        said = _DRIVER_DETAILS.split(str(error), maxsplit=1)[0][:200].rstrip(".")
        how = "refuses" if isinstance(error, OperationFailure) else "does not answer"
        return f"MongoDB {how}: {said}; run `unattended doctor`", EXIT_FAILURE
    return None
