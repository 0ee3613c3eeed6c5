"""Names for the Tab key: of workflows, triggers, apps and runs; within half a second or not at all, and in silence."""

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

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem
    from pymongo.database import Database

PATIENCE_S = 0.5
MOST = 50
_WITHIN_MS = 300
# bash takes a completed word as if it were typed: an app that is called `$(…)` would be run.
_HARMLESS = re.compile(r"[\w@%+=:,./-]+")

_looked = threading.Event()

Name = tuple[str, str]  # and what is said beside it
Find = Callable[[str], Iterable[Name]]
Complete = Callable[[click.Context, click.Parameter, str], "list[CompletionItem[str]]"]


def completed_by(find: Find) -> Complete:
    """For the `shell_complete` of a parameter. What was found when patience ends is what is shown."""

    def complete(_context: click.Context, _parameter: click.Parameter, begun: str) -> "list[CompletionItem[str]]":
        from click.shell_completion import CompletionItem

        found: dict[str, str] = {}

        def look() -> None:
            with suppress(Exception):  # who presses Tab has asked nothing yet that an error could answer
                for name, said in find(begun):
                    if name.startswith(begun) and _HARMLESS.fullmatch(name):
                        found.setdefault(name, said)

        logging.disable()
        warnings.simplefilter("ignore")
        looking = threading.Thread(target=look, daemon=True)
        looking.start()
        _looked.set()
        looking.join(PATIENCE_S)
        return [CompletionItem(name, help=said or None) for name, said in list(found.items())]

    return complete


def leave_if_completed() -> None:
    """At once: threads that still look, or wait for a name server, would keep the process from its end."""
    if _looked.is_set():
        with suppress(OSError):
            sys.stdout.flush()
        os._exit(0)


def workflows(_begun: str) -> Iterator[Name]:
    yield from ((workflow, "") for workflow, _ in _packages("orchestrator"))


def triggers(begun: str) -> Iterator[Name]:
    """Their ids; and the names alone, once somebody has begun to write one."""
    for workflow, name, kind in _declared():
        yield f"{workflow}/{name}", kind
        if begun:
            yield name, kind
    with _database() as database:
        made = database["triggers"].find({**_beginning(begun), "spec": {"$exists": True}}, {"spec.type": 1})
        yield from ((each["_id"], each["spec"]["type"]) for each in made.limit(MOST))


def trigger_names(_begun: str) -> Iterator[Name]:
    for _, name, kind in _declared():
        yield name, kind
        yield kind, "a type"


def apps(_begun: str) -> Iterator[Name]:
    from workers.store.completions import app_ids

    with _database() as database:
        yield from ((app_id, "") for app_id in app_ids(database))


def runs(*states: str) -> Find:
    """The newest, of these states."""

    def find(begun: str) -> Iterator[Name]:
        wanted: dict[str, Any] = _beginning(begun) if begun else {}
        if states:
            wanted["state"] = {"$in": list(states)}
        shown = ("app_id", "workflow", "state")
        from workers.store.completions import newest_runs

        with _database() as database:
            for run in newest_runs(database, wanted, shown, limit=MOST):
                yield run["_id"], " ".join(str(run[name]) for name in shown)

    return find


def stored(collection: str, *said: str) -> Find:
    """Ids of a small collection, the newest first."""

    def find(begun: str) -> Iterator[Name]:
        with _database() as database:
            for each in (
                database[collection].find(_beginning(begun), dict.fromkeys(said, 1)).sort("_id", -1).limit(MOST)
            ):
                yield str(each["_id"]), " ".join(str(each.get(name) or "") for name in said)

    return find


def _beginning(begun: str) -> dict[str, Any]:
    return {"_id": {"$regex": f"^{re.escape(begun)}"}}


def _declared() -> Iterator[tuple[str, str, str]]:
    """Workflow, name and type of each trigger in a package."""
    for workflow, files in _packages("orchestrator", "triggers"):
        for each in files["triggers"].get("triggers") or ():
            yield workflow, str(each["name"]), str(each.get("type", ""))


def _packages(*stems: str) -> "Iterator[tuple[str, Mapping[str, Mapping[str, Any]]]]":
    """Their files as they are written: to check them would take longer than a Tab key is waited for."""
    from workers.settings import load_settings
    from workflows.package.catalog import package_directories, package_folders
    from workflows.package.findings import Findings
    from workflows.package.raw.files import read_package_files

    for folder in package_folders(package_directories(load_settings().packages)):
        files = read_package_files(folder, Findings())
        found = {stem: files[stem].body if stem in files else {} for stem in stems}
        yield str(found["orchestrator"].get("workflow_name") or folder.name), found


@contextmanager
def _database() -> "Iterator[Database[dict[str, Any]]]":
    from workers.services import with_services
    from workers.settings import load_settings

    settings = with_services(load_settings(), redis=False)

    import pymongo

    client: pymongo.MongoClient[dict[str, Any]] = pymongo.MongoClient(
        settings.mongodb_url, serverSelectionTimeoutMS=_WITHIN_MS, connectTimeoutMS=_WITHIN_MS
    )
    with pymongo.timeout(PATIENCE_S), client:
        yield client[settings.database]
