"""Messages and exit codes for errors that a user or operator can fix."""

import errno
import re

import click

from ops.cli.command import PROGRAM
from ops.cli.exit_codes import EXIT_FAILURE, EXIT_USAGE
from workers.embedded_services import NothingRunning
from workers.settings import SettingsError

_DRIVER_DETAILS = re.compile(r",? (?:full error|Topology Description):| \(configured timeouts:")
_DISK_FULL_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def describe_error(error: Exception) -> tuple[str, int] | None:
    """Return one line and the exit code; None for a defect of the program itself."""
    if isinstance(error, SettingsError):
        return str(error), EXIT_FAILURE if isinstance(error, NothingRunning) else EXIT_USAGE
    if isinstance(error, click.ClickException):
        return _describe_usage_error(error), EXIT_USAGE
    if isinstance(error, UnicodeEncodeError) and "surrogates" in error.reason:
        return "an argument has bytes that are not UTF-8; write it in UTF-8", EXIT_USAGE
    if isinstance(error, OSError) and error.errno in _DISK_FULL_ERRNOS:
        return f"{error.filename or 'standard output'} cannot be written: {error.strerror}", EXIT_FAILURE
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename} cannot be used: {error.strerror}; correct its name or its permissions", EXIT_FAILURE
    return _describe_package_error(error) or _describe_mongodb_error(error)


def _describe_usage_error(error: click.ClickException) -> str:
    """Format as one line in lower case, followed by the `--help` command that explains it."""
    message = " ".join(error.format_message().split()).rstrip(".")
    message = message[:1].lower() + message[1:]
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is None:
        return message
    path = context.command_path.replace(context.find_root().info_name or PROGRAM, PROGRAM, 1)
    return f"{message}{' See' if message.endswith('?') else '; see'} `{path} --help`"


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
        message = _DRIVER_DETAILS.split(str(error), maxsplit=1)[0][:200].rstrip(".")
        problem = "refuses" if isinstance(error, OperationFailure) else "does not answer"
        return f"MongoDB {problem}: {message}; run `unattended doctor`", EXIT_FAILURE
    return None
