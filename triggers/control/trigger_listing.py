"""Listing triggers: those of packages and those made at run time, in the order of their ids."""

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from pymongo import ASCENDING

from triggers.control.trigger_entry import ControlContext, TriggerEntry, declared_entry, package_entries, runtime_entry
from triggers.control.trigger_status import TriggerStateName, trigger_status
from triggers.control.trigger_view import trigger_summary
from triggers.register.trigger_record import read_record
from workers.settings import Settings
from workflows.package.normal_form.package_model import Package

BATCH_SIZE = 500  # reading a spec takes time, and others wait for the same loop meanwhile
_AFTER_SLASH = "0"  # the next character: ids between W/ and W0 are those of one workflow


@dataclass(frozen=True, slots=True)
class TriggerFilter:
    app_id: str | None = None
    workflow: str | None = None
    type: str | None = None
    state: TriggerStateName | None = None

    def is_match(self, entry: TriggerEntry) -> bool:
        """All but the state, which takes a look at more than the trigger."""
        return (
            (self.app_id is None or entry.is_for_app(self.app_id))
            and self.workflow in (None, entry.workflow)
            and self.type in (None, entry.type)
        )


async def iter_triggers(
    context: ControlContext,
    trigger_filter: TriggerFilter,
    *,
    viewer: str | None = None,
    after: str = "",
    limit: int = 0,
    max_scanned: int = 0,
) -> AsyncGenerator[dict[str, Any]]:
    """From behind the id `after`; `limit` 0 is all. `viewer`: the app that sees only itself. `looks`: of those made at
    run time only so many are looked at, for whoever rather knows less than waits for a hundred thousand."""
    packages = context.catalog.packages()
    from_packages = await _attach_records(context, list(_package_entries(packages, trigger_filter, after)))
    found = 0
    async with aclosing(
        _merge_by_id(from_packages, _runtime_entries(context, trigger_filter, after, max_scanned))
    ) as both:
        async for known in both:
            row = _listing_row(known, trigger_filter, context.settings, packages, viewer)
            if row is not None:
                yield row
                found += 1
            if limit and found == limit:
                return


def list_package_triggers(
    settings: Settings, packages: Mapping[str, Package], trigger_filter: TriggerFilter
) -> list[dict[str, Any]]:
    """Without a store, which would know what is paused and what was made at run time."""
    rows = (
        _listing_row(known, trigger_filter, settings, packages, None)
        for known in _package_entries(packages, trigger_filter, "")
    )
    return [row for row in rows if row is not None]


def _package_entries(
    packages: Mapping[str, Package], trigger_filter: TriggerFilter, after: str
) -> Iterator[TriggerEntry]:
    found = (each for each in package_entries(packages) if each.id > after and trigger_filter.is_match(each))
    return iter(sorted(found, key=lambda each: each.id))


async def _attach_records(context: ControlContext, entries: Sequence[TriggerEntry]) -> list[TriggerEntry]:
    records = await context.triggers.find_records([each.id for each in entries])
    return [declared_entry(each.trigger, records.get(each.id)) for each in entries if each.trigger is not None]


async def _runtime_entries(
    context: ControlContext, trigger_filter: TriggerFilter, after: str, max_scanned: int
) -> AsyncGenerator[TriggerEntry]:
    found = (
        context.triggers.triggers.find(runtime_query(trigger_filter, after))
        .sort("_id", ASCENDING)
        .batch_size(BATCH_SIZE)
    )
    async with found.limit(max_scanned):
        async for document in found:
            yield runtime_entry(read_record(document))


def runtime_query(trigger_filter: TriggerFilter, after: str) -> dict[str, Any]:
    """In the order of ids an index answers it: that of the app, of the kind, or of the ids themselves."""
    within: dict[str, Any] = {"$gt": after}
    if trigger_filter.workflow is not None:
        within = {"$gt": max(after, f"{trigger_filter.workflow}/"), "$lt": f"{trigger_filter.workflow}{_AFTER_SLASH}"}
    asked: dict[str, Any] = {"_id": within, "spec.type": trigger_filter.type or {"$exists": True}}
    if trigger_filter.app_id is not None:
        asked["app_id"] = trigger_filter.app_id
    if trigger_filter.state == "paused":
        asked["paused.at"] = {"$exists": True}
    return asked


async def _merge_by_id(
    first: Sequence[TriggerEntry], then: AsyncGenerator[TriggerEntry]
) -> AsyncGenerator[TriggerEntry]:
    waiting = list(reversed(first))
    async with aclosing(then):
        async for known in then:
            while waiting and waiting[-1].id < known.id:
                yield waiting.pop()
            yield known
    for known in reversed(waiting):
        yield known


def _listing_row(
    entry: TriggerEntry,
    trigger_filter: TriggerFilter,
    settings: Settings,
    packages: Mapping[str, Package],
    viewer: str | None,
) -> dict[str, Any] | None:
    standing = trigger_status(entry, settings, packages, app_id=trigger_filter.app_id)
    if trigger_filter.state not in (None, standing.state):
        return None
    return trigger_summary(entry, standing, viewer=viewer)
