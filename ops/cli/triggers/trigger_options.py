"""Shared parts of the trigger commands: arguments, contexts, and refusals as one line."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import click

from ops.cli.completion import complete_with, find_apps, find_triggers
from ops.cli.database_session import with_database
from ops.cli.exit_codes import EXIT_FAILURE, EXIT_USAGE
from ops.cli.output import exit_with_error
from workers.control.change_result import RefusedError
from workers.settings import Settings

if TYPE_CHECKING:
    from triggers.control.trigger_entry import ControlContext
    from triggers.role_context import RoleContext

T = TypeVar("T")

_OPTION_BY_FIELD = {"app_id": "--app", "event": "--event", "note": "--note", "from": "--from", "to": "--to"}

NAME_ARGUMENT = click.argument("name", shell_complete=complete_with(find_triggers))
APP_OPTION = click.option("--app", "app_id", shell_complete=complete_with(find_apps), help="Only for this app.")


def with_triggers(work: "Callable[[ControlContext], Awaitable[T]]") -> T:
    """Run `work` without a broker, for commands that start no run."""
    from triggers.control.trigger_entry import BrokerlessContext
    from triggers.register.trigger_store import TriggerStore
    from workflows.package.catalog import Catalog, package_directories

    return with_database(
        lambda database, settings: work(
            BrokerlessContext(
                settings, database, TriggerStore(database), Catalog(package_directories(settings.packages))
            )
        )
    )


def with_acceptance(work: "Callable[[RoleContext], Awaitable[T]]") -> T:
    """Run `work` with a broker; the wake-ups of its runs are sent before the command ends."""
    from triggers.role_context import open_role_context

    async def work_in_context(_database: object, settings: Settings) -> T:
        async with open_role_context(settings) as context:
            return await work(context)

    return with_database(work_in_context, redis=True)


@contextmanager
def exit_on_refusal() -> Iterator[None]:
    """Exit with 2 if an option's value is wrong, and with 1 if the trigger's state refuses the command."""
    from triggers.control.trigger_errors import (
        EditedMeanwhileError,
        UnfitTriggerError,
        UnknownTriggerError,
        UnknownWorkflowError,
    )

    try:
        yield
    except UnknownTriggerError as error:
        text, code = f"{error}; `unattended triggers list` lists the triggers", EXIT_FAILURE
    except UnknownWorkflowError as error:
        text, code = f"{error}; `unattended packages list` lists the packages", EXIT_FAILURE
    except (RefusedError, EditedMeanwhileError) as error:
        text, code = str(error), EXIT_FAILURE
    except UnfitTriggerError as error:
        problems = [
            f"{_OPTION_BY_FIELD.get(field, field)}: {problem}" if field else problem
            for field, problem in error.problems.items()
        ]
        text, code = "; ".join(problems), EXIT_USAGE
    else:
        return
    exit_with_error(text, code)
