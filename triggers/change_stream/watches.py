"""Watches: which triggers look at which database, and the one filter that serves all of them.

A stream covers a database, not a collection: dropping or renaming a collection ends a collection's stream,
and many triggers share one cursor. The filter is built here from names alone, never from a user's query.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workers.store.own_collections import OWN_COLLECTIONS
from workflows.package.models import Package
from workflows.package.trigger_specs.change import ChangeSpec


@dataclass(frozen=True, slots=True)
class Watch:
    workflow: str
    spec: ChangeSpec

    @property
    def id(self) -> str:
        return f"{self.workflow}/{self.spec.name}"

    def concerns(self, event: Mapping[str, Any]) -> bool:
        return event["operationType"] in self.spec.operations and event["ns"]["coll"] == self.spec.collection


@dataclass(frozen=True, slots=True)
class Declared:
    by_database: Mapping[str, tuple[Watch, ...]]
    refused: Mapping[str, str]  # trigger to reason


def declared_watches(packages: Mapping[str, Package], *, own_database: str) -> Declared:
    by_database: dict[str, tuple[Watch, ...]] = {}
    refused: dict[str, str] = {}
    for workflow, package in packages.items():
        for spec in package.triggers:
            if not isinstance(spec, ChangeSpec):
                continue
            watch = Watch(workflow, spec)
            reason = _refusal(spec, own_database)
            if reason is not None:
                refused[watch.id] = reason
            else:
                by_database[spec.database] = (*by_database.get(spec.database, ()), watch)
    return Declared(by_database, refused)


def _refusal(spec: ChangeSpec, own_database: str) -> str | None:
    # It would feed itself: each run, turn and saved position is a change in one of them.
    if spec.database == own_database and spec.collection in OWN_COLLECTIONS:
        return f"{spec.database}.{spec.collection} is ours, and every run changes it"
    if not spec.apps and spec.app_id is None:
        return "neither apps nor app_id"
    return None


def match_stage(watches: Sequence[Watch]) -> dict[str, Any]:
    wanted: dict[str, set[str]] = {}
    for watch in watches:
        wanted.setdefault(watch.spec.collection or "", set()).update(watch.spec.operations)
    changes = [
        {"ns.coll": collection, "operationType": {"$in": sorted(operations)}}
        for collection, operations in sorted(wanted.items())
    ]
    # Without it a stream that ends by dropDatabase ends without a position to go on from.
    return {"$match": {"$or": [*changes, {"operationType": "invalidate"}]}}


def needs_lookup(watches: Sequence[Watch]) -> bool:
    """An update event alone carries only what changed."""
    return any("update" in watch.spec.operations for watch in watches)


def all_resume_now(watches: Sequence[Watch]) -> bool:
    return all(watch.spec.on_history_lost == "resume_now" for watch in watches)
