"""The `unattended` command. Exit codes: 0 good, 1 said no, 2 wrong use."""

import sys
from typing import Any

import click
from pymongo.errors import ConfigurationError, OperationFailure, PyMongoError

from ops.cli.inspect_packages import packages
from ops.cli.keys import keys
from ops.cli.look import usage
from ops.cli.machine import demo, doctor, up
from ops.cli.manage import enqueue
from ops.cli.roles import ROLE_COMMANDS
from ops.cli.run import run_locally
from ops.cli.runs.group import runs
from ops.cli.schemas import export_schema
from ops.cli.triggers.group import triggers
from ops.cli.validate import validate
from ops.embedded.errors import EmbeddedError
from workers.services import NothingRunning
from workers.settings import SettingsError
from workflows.models_file import ModelsFileError
from workflows.package.findings import PackageError

SAID_NO = 1
WRONG_USE = 2
INTERRUPTED = 130


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="unattended", message="unattended %(version)s")
def cli() -> None:
    """Runs AG2 multi-agent workflows with nobody in the chat.

    \b
    Start here:
      unattended demo      four triggers, four runs and the bill, in two minutes
      unattended up        servers and all roles on this machine
      unattended doctor    what would break, and what to do about it
    """


for command in (
    demo,
    up,
    doctor,
    validate,
    run_locally,
    enqueue,
    runs,
    triggers,
    usage,
    packages,
    keys,
    *ROLE_COMMANDS,
):
    cli.add_command(command)
packages.add_command(export_schema)


def run() -> None:
    """Runs the command; a user's mistake is one line on stderr, never a traceback."""
    try:
        code: Any = cli.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(WRONG_USE)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(INTERRUPTED)
    except (SettingsError, ModelsFileError, EmbeddedError, PackageError, PyMongoError) as error:
        message, code = explain(error)
        click.echo(f"unattended: {message}", err=True)
        sys.exit(code)
    sys.exit(code if isinstance(code, int) else 0)


def explain(error: Exception) -> tuple[str, int]:
    """One line for the user, and whether the world said no or the command was wrong."""
    if isinstance(error, NothingRunning | EmbeddedError):
        return str(error), SAID_NO
    if isinstance(error, PackageError):
        return str(error.finding), SAID_NO
    if isinstance(error, ConfigurationError):
        return f"UNATTENDED_MONGODB_URL cannot be used: {error}", WRONG_USE
    if isinstance(error, PyMongoError):
        said = str(error).partition(", full error:")[0].partition(", Topology Description:")[0][:200].rstrip(".")
        how = "refuses" if isinstance(error, OperationFailure) else "does not answer"
        return f"MongoDB {how}: {said}; run `unattended doctor`", SAID_NO
    return str(error), WRONG_USE
