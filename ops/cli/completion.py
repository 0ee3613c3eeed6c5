"""`unattended completion`: the script with which a shell completes commands, options and names."""

import logging
import os
import re
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import click

from ops.cli.command import PROGRAM, command

SHELLS = ("bash", "zsh", "fish")


@command(
    "completion",
    examples=[
        "unattended completion bash >> ~/.bashrc",
        "unattended completion zsh >> ~/.zshrc",
        "unattended completion fish > ~/.config/fish/completions/unattended.fish",
    ],
)
@click.argument("shell", type=click.Choice(SHELLS), metavar="bash|zsh|fish")
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Prints what makes your shell complete commands with Tab.

    Also options, and the names of your workflows, triggers, apps and runs, as far as they are found in half a second.
    Works from the next shell that you start; bash has to be 4.4 or newer, zsh needs `compinit` before it.
    """
    from click.shell_completion import get_completion_class

    from ops.cli.main import COMPLETE_VARIABLE

    known = get_completion_class(shell)
    if known is None:  # a shell that click has learned to do without
        raise click.BadParameter(f"this version of click knows no {shell}", param_hint="SHELL")
    click.echo(known(context.find_root().command, {}, PROGRAM, COMPLETE_VARIABLE).source(), nl=False)


if TYPE_CHECKING:
    from click.shell_completion import CompletionItem
    from pymongo.database import Database

TIMEOUT_S = 0.5
MAX_NAMES = 50
_MONGODB_TIMEOUT_MS = 300
# bash takes a completed word as if it were typed: an app that is called `$(…)` would be run.
_SHELL_SAFE = re.compile(r"[\w@%+=:,./-]+")

_has_completed = threading.Event()

Candidate = tuple[str, str]  # and what is said beside it
FindNames = Callable[[str], Iterable[Candidate]]
ShellComplete = Callable[[click.Context, click.Parameter, str], "list[CompletionItem[str]]"]


def complete_with(find: FindNames) -> ShellComplete:
    """For the `shell_complete` of a parameter. What was found when patience ends is what is shown."""

    def complete(_context: click.Context, _parameter: click.Parameter, begun: str) -> "list[CompletionItem[str]]":
        from click.shell_completion import CompletionItem

        found: dict[str, str] = {}

        def look() -> None:
            with suppress(Exception):  # who presses Tab has asked nothing yet that an error could answer
                for name, said in find(begun):
                    if name.startswith(begun) and _SHELL_SAFE.fullmatch(name):
                        found.setdefault(name, said)

        logging.disable()
        warnings.simplefilter("ignore")
        looking = threading.Thread(target=look, daemon=True)
        looking.start()
        _has_completed.set()
        looking.join(TIMEOUT_S)
        return [CompletionItem(name, help=said or None) for name, said in list(found.items())]

    return complete


def exit_if_completed() -> None:
    """At once: threads that still look, or wait for a name server, would keep the process from its end."""
    if _has_completed.is_set():
        with suppress(OSError):
            sys.stdout.flush()
        os._exit(0)


def find_workflows(_prefix: str) -> Iterator[Candidate]:
    yield from ((workflow, "") for workflow, _ in _package_files("orchestrator"))


def find_triggers(prefix: str) -> Iterator[Candidate]:
    """Their ids; and the names alone, once somebody has begun to write one."""
    for workflow, name, kind in _declared_triggers():
        yield f"{workflow}/{name}", kind
        if prefix:
            yield name, kind
    with _open_database() as database:
        made = database["triggers"].find({**_id_prefix_filter(prefix), "spec": {"$exists": True}}, {"spec.type": 1})
        yield from ((each["_id"], each["spec"]["type"]) for each in made.limit(MAX_NAMES))


def find_trigger_names(_prefix: str) -> Iterator[Candidate]:
    for _, name, kind in _declared_triggers():
        yield name, kind
        yield kind, "a type"


def find_apps(_prefix: str) -> Iterator[Candidate]:
    from workers.store.completions import app_ids

    with _open_database() as database:
        yield from ((app_id, "") for app_id in app_ids(database))


def find_runs(*states: str) -> FindNames:
    """The newest, of these states."""

    def find(begun: str) -> Iterator[Candidate]:
        wanted: dict[str, Any] = _id_prefix_filter(begun) if begun else {}
        if states:
            wanted["state"] = {"$in": list(states)}
        shown = ("app_id", "workflow", "state")
        from workers.store.completions import newest_runs

        with _open_database() as database:
            for run in newest_runs(database, wanted, shown, limit=MAX_NAMES):
                yield run["_id"], " ".join(str(run[name]) for name in shown)

    return find


def find_ids(collection: str, *fields: str) -> FindNames:
    """Ids of a small collection, the newest first."""

    def find(begun: str) -> Iterator[Candidate]:
        with _open_database() as database:
            for each in (
                database[collection]
                .find(_id_prefix_filter(begun), dict.fromkeys(fields, 1))
                .sort("_id", -1)
                .limit(MAX_NAMES)
            ):
                yield str(each["_id"]), " ".join(str(each.get(name) or "") for name in fields)

    return find


def _id_prefix_filter(prefix: str) -> dict[str, Any]:
    return {"_id": {"$regex": f"^{re.escape(prefix)}"}}


def _declared_triggers() -> Iterator[tuple[str, str, str]]:
    """Workflow, name and type of each trigger in a package."""
    for workflow, files in _package_files("orchestrator", "triggers"):
        for each in files["triggers"].get("triggers") or ():
            yield workflow, str(each["name"]), str(each.get("type", ""))


def _package_files(*stems: str) -> "Iterator[tuple[str, Mapping[str, Mapping[str, Any]]]]":
    """Their files as they are written: to check them would take longer than a Tab key is waited for."""
    from workers.settings import load_settings
    from workflows.package.catalog import list_package_folders, package_directories
    from workflows.package.files.package_files import read_package_files
    from workflows.package.findings import Findings

    for folder in list_package_folders(package_directories(load_settings().packages)):
        files = read_package_files(folder, Findings())
        found = {stem: files[stem].body if stem in files else {} for stem in stems}
        yield str(found["orchestrator"].get("workflow_name") or folder.name), found


@contextmanager
def _open_database() -> "Iterator[Database[dict[str, Any]]]":
    from workers.embedded_services import with_services
    from workers.settings import load_settings

    settings = with_services(load_settings(), redis=False)

    import pymongo

    client: pymongo.MongoClient[dict[str, Any]] = pymongo.MongoClient(
        settings.mongodb_url, serverSelectionTimeoutMS=_MONGODB_TIMEOUT_MS, connectTimeoutMS=_MONGODB_TIMEOUT_MS
    )
    with pymongo.timeout(TIMEOUT_S), client:
        yield client[settings.database]
