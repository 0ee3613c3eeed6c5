"""Tab completion: candidates for names, and the command that prints a shell's script."""

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

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem
    from pymongo.database import Database

SHELLS = ("bash", "zsh", "fish")
TIMEOUT_S = 0.5
MAX_NAMES = 50
_MONGODB_TIMEOUT_MS = 300
# bash evaluates a completed word as if it were typed: an app called `$(…)` would be executed.
_SHELL_SAFE = re.compile(r"[\w@%+=:,./-]+")

_has_completed = threading.Event()

Candidate = tuple[str, str]  # a name, and the hint that the shell shows beside it
FindNames = Callable[[str], Iterable[Candidate]]
ShellComplete = Callable[[click.Context, click.Parameter, str], "list[CompletionItem[str]]"]


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
    """Prints the script that completes commands with Tab.

    It completes commands, options, and the names of workflows, triggers, apps and runs that are found within half a
    second. It takes effect in the next shell. Needs bash 4.4 or newer; in zsh, load it after `compinit`.
    """
    from click.shell_completion import get_completion_class

    from ops.cli.main import COMPLETE_VARIABLE

    completion_class = get_completion_class(shell)
    if completion_class is None:  # a newer click may drop a shell
        raise click.BadParameter(f"this version of click does not support {shell}", param_hint="SHELL")
    click.echo(completion_class(context.find_root().command, {}, PROGRAM, COMPLETE_VARIABLE).source(), nl=False)


def complete_with(find: FindNames, *, timeout_s: float = TIMEOUT_S) -> ShellComplete:
    """Build a parameter's `shell_complete`: it returns the names that `find` yields within the timeout."""

    def complete(_context: click.Context, _parameter: click.Parameter, prefix: str) -> "list[CompletionItem[str]]":
        from click.shell_completion import CompletionItem

        found: dict[str, str] = {}

        def collect() -> None:
            with suppress(Exception):  # an error on Tab would garble the line that is being typed
                for name, hint in find(prefix):
                    if name.startswith(prefix) and _SHELL_SAFE.fullmatch(name):
                        found.setdefault(name, hint)

        logging.disable()
        warnings.simplefilter("ignore")
        thread = threading.Thread(target=collect, daemon=True)
        thread.start()
        _has_completed.set()
        thread.join(timeout_s)
        return [CompletionItem(name, help=hint or None) for name, hint in list(found.items())]

    return complete


def exit_if_completed() -> None:
    """End the process at once after a completion.

    A thread that still queries, or waits for a name server, would delay the normal exit.
    """
    if _has_completed.is_set():
        with suppress(OSError):
            sys.stdout.flush()
        os._exit(0)


def find_workflows(_prefix: str) -> Iterator[Candidate]:
    yield from ((workflow, "") for workflow, _ in _package_files("orchestrator"))


def find_triggers(prefix: str) -> Iterator[Candidate]:
    """Yield ids; after the first letter also bare names."""
    for workflow, name, kind in _declared_triggers():
        yield f"{workflow}/{name}", kind
        if prefix:
            yield name, kind
    with _open_database() as database:
        created = database["triggers"].find({**_id_prefix_filter(prefix), "spec": {"$exists": True}}, {"spec.type": 1})
        yield from ((trigger["_id"], trigger["spec"]["type"]) for trigger in created.limit(MAX_NAMES))


def find_trigger_names(_prefix: str) -> Iterator[Candidate]:
    for _, name, kind in _declared_triggers():
        yield name, kind
        yield kind, "a type"


def find_apps(_prefix: str) -> Iterator[Candidate]:
    from workers.store.tab_completions import app_ids

    with _open_database() as database:
        yield from ((app_id, "") for app_id in app_ids(database))


def find_runs(*states: str) -> FindNames:
    """Build a finder of the newest runs in these states; without states, in any."""

    def find(prefix: str) -> Iterator[Candidate]:
        query: dict[str, Any] = _id_prefix_filter(prefix) if prefix else {}
        if states:
            query["state"] = {"$in": list(states)}
        fields = ("app_id", "workflow", "state")
        from workers.store.tab_completions import newest_runs

        with _open_database() as database:
            for run in newest_runs(database, query, fields, limit=MAX_NAMES):
                yield run["_id"], " ".join(str(run[name]) for name in fields)

    return find


def find_ids(collection: str, *fields: str) -> FindNames:
    """Build a finder of the ids in a small collection, the newest first."""

    def find(prefix: str) -> Iterator[Candidate]:
        with _open_database() as database:
            documents = database[collection].find(_id_prefix_filter(prefix), dict.fromkeys(fields, 1))
            for document in documents.sort("_id", -1).limit(MAX_NAMES):
                yield str(document["_id"]), " ".join(str(document.get(name) or "") for name in fields)

    return find


def _id_prefix_filter(prefix: str) -> dict[str, Any]:
    return {"_id": {"$regex": f"^{re.escape(prefix)}"}}


def _declared_triggers() -> Iterator[tuple[str, str, str]]:
    """Yield workflow, name and type of each trigger in the packages."""
    for workflow, files in _package_files("orchestrator", "triggers"):
        for entry in files["triggers"].get("triggers") or ():
            yield workflow, str(entry["name"]), str(entry.get("type", ""))


def _package_files(*stems: str) -> "Iterator[tuple[str, Mapping[str, Mapping[str, Any]]]]":
    """Yield each package's raw files; checking them would exceed the timeout."""
    from workers.settings import load_settings
    from workflows.package.catalog import list_package_folders, package_directories
    from workflows.package.files.package_files import read_package_files
    from workflows.package.findings import Findings

    for folder in list_package_folders(package_directories(load_settings().packages)):
        files = read_package_files(folder, Findings())
        bodies = {stem: files[stem].body if stem in files else {} for stem in stems}
        yield str(bodies["orchestrator"].get("workflow_name") or folder.name), bodies


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
