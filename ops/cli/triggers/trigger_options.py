"""What the commands on triggers have in common: the ground they stand on, and how a refusal is told."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click

from ops.cli.completion import complete_with, find_apps, find_triggers
from ops.cli.runs.run_options import MOMENT
from ops.cli.session import with_database
from ops.presenters.printable_text import to_printable
from workers.control.errors import RefusedError

_KEYWORDS = ("now", "token")


if TYPE_CHECKING:
    from triggers.control.trigger_entry import ControlContext
    from triggers.role_context import RoleContext

T = TypeVar("T")

EXIT_FAILURE = 1
EXIT_USAGE = 2
_OPTION_BY_FIELD = {"app_id": "--app", "event": "--event", "note": "--note", "from": "--from", "to": "--to"}

NAME_ARGUMENT = click.argument("name", shell_complete=complete_with(find_triggers))
APP_OPTION = click.option("--app", "app_id", shell_complete=complete_with(find_apps), help="Of this app alone.")


def with_triggers(work: "Callable[[ControlContext], Awaitable[T]]") -> T:
    """For what starts no run."""
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
    """For what starts runs: their wake-ups are sent before the command ends."""
    from triggers.role_context import open_role_context
    from workers.settings import Settings

    async def on_ground(_database: object, settings: Settings) -> T:
        async with open_role_context(settings) as ground:
            return await work(ground)

    return with_database(on_ground, redis=True)


@contextmanager
def exit_on_refusal() -> Iterator[None]:
    """What is wrong with the command's own words exits with 2, what the world says no to with 1."""
    from triggers.control.trigger_errors import (
        EditedMeanwhileError,
        UnfitTriggerError,
        UnknownTriggerError,
        UnknownWorkflowError,
    )

    try:
        yield
    except UnknownTriggerError as error:
        text, code = f"{error}; `unattended triggers list` shows them", EXIT_FAILURE
    except UnknownWorkflowError as error:
        text, code = f"{error}; `unattended packages list` shows those that are there", EXIT_FAILURE
    except (RefusedError, EditedMeanwhileError) as error:
        text, code = str(error), EXIT_FAILURE
    except UnfitTriggerError as error:
        said = [
            f"{_OPTION_BY_FIELD.get(place, place)}: {text}" if place else text for place, text in error.problems.items()
        ]
        text, code = "; ".join(said), EXIT_USAGE
    else:
        return
    click.echo(f"unattended: {to_printable(text)}", err=True)
    raise SystemExit(code)


class StreamPositionType(click.ParamType[Literal["now", "token"] | datetime]):
    name = "now|token|age|time"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Literal["now", "token"] | datetime:
        return value if value in _KEYWORDS else MOMENT.convert(value, param, ctx)
