"""What the commands on triggers have in common: the ground they stand on, and how a refusal is told."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import click

from ops.cli.completing import apps, completed_by, triggers
from ops.cli.session import with_database
from ops.cli.verdicts import printable
from workers.control.errors import RefusedError

if TYPE_CHECKING:
    from triggers.control.known import Ground
    from triggers.role import TriggerGround

T = TypeVar("T")

SAID_NO = 1
WRONG_USE = 2
_OPTIONS = {"app_id": "--app", "event": "--event", "note": "--note", "from": "--from", "to": "--to"}

NAME = click.argument("name", shell_complete=completed_by(triggers))
APP = click.option("--app", "app_id", shell_complete=completed_by(apps), help="Of this app alone.")


def with_triggers(work: "Callable[[Ground], Awaitable[T]]") -> T:
    """For what starts no run."""
    from triggers.control.known import ControlGround
    from triggers.register.store import TriggerStore
    from workflows.package.catalog import Catalog, package_directories

    return with_database(
        lambda database, settings: work(
            ControlGround(settings, database, TriggerStore(database), Catalog(package_directories(settings.packages)))
        )
    )


def with_acceptance(work: "Callable[[TriggerGround], Awaitable[T]]") -> T:
    """For what starts runs: their wake-ups are sent before the command ends."""
    from triggers.role import trigger_ground
    from workers.settings import Settings

    async def on_ground(_database: object, settings: Settings) -> T:
        async with trigger_ground(settings) as ground:
            return await work(ground)

    return with_database(on_ground, redis=True)


@contextmanager
def refusals_in_one_line() -> Iterator[None]:
    """What is wrong with the command's own words exits with 2, what the world says no to with 1."""
    from triggers.control.errors import (
        EditedMeanwhileError,
        UnfitTriggerError,
        UnknownTriggerError,
        UnknownWorkflowError,
    )

    try:
        yield
    except UnknownTriggerError as error:
        text, code = f"{error}; `unattended triggers list` shows them", SAID_NO
    except UnknownWorkflowError as error:
        text, code = f"{error}; `unattended packages list` shows those that are there", SAID_NO
    except (RefusedError, EditedMeanwhileError) as error:
        text, code = str(error), SAID_NO
    except UnfitTriggerError as error:
        said = [f"{_OPTIONS.get(place, place)}: {text}" if place else text for place, text in error.problems.items()]
        text, code = "; ".join(said), WRONG_USE
    else:
        return
    click.echo(f"unattended: {printable(text)}", err=True)
    raise SystemExit(code)
