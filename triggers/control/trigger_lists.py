"""Trigger listing: package and runtime triggers, in the order of their ids."""

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from triggers.control.trigger_entry import ControlContext, TriggerEntry, declared_entry, package_entries, runtime_entry
from triggers.control.trigger_status import TriggerStateName, trigger_status
from triggers.control.trigger_view import trigger_summary
from workers.settings import Settings
from workflows.package.normal_form.package_model import Package


@dataclass(frozen=True, slots=True)
class TriggerFilter:
    app_id: str | None = None
    workflow: str | None = None
    type: str | None = None
    state: TriggerStateName | None = None

    def is_match(self, entry: TriggerEntry) -> bool:
        """Compares all but the state, which depends on more than the trigger."""
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
    """Yields rows after the id `after`; `limit` 0 is all.

    `viewer`: the app that sees only itself. `max_scanned` bounds how many runtime triggers are read, for callers that
    prefer an incomplete list to a long wait.
    """
    packages = context.catalog.packages()
    from_packages = await _attach_records(context, list(_package_entries(packages, trigger_filter, after)))
    found = 0
    async with aclosing(
        _merge_by_id(from_packages, _runtime_entries(context, trigger_filter, after, max_scanned))
    ) as entries:
        async for entry in entries:
            row = _listing_row(entry, trigger_filter, context.settings, packages, viewer)
            if row is not None:
                yield row
                found += 1
            if limit and found == limit:
                return


def list_package_triggers(
    settings: Settings, packages: Mapping[str, Package], trigger_filter: TriggerFilter
) -> list[dict[str, Any]]:
    """Lists package triggers without a store, and so without pauses."""
    rows = (
        _listing_row(entry, trigger_filter, settings, packages, None)
        for entry in _package_entries(packages, trigger_filter, "")
    )
    return [row for row in rows if row is not None]


def _package_entries(
    packages: Mapping[str, Package], trigger_filter: TriggerFilter, after: str
) -> Iterator[TriggerEntry]:
    found = (entry for entry in package_entries(packages) if entry.id > after and trigger_filter.is_match(entry))
    return iter(sorted(found, key=lambda entry: entry.id))


async def _attach_records(context: ControlContext, entries: Sequence[TriggerEntry]) -> list[TriggerEntry]:
    records = await context.triggers.find_records([entry.id for entry in entries])
    return [declared_entry(entry.trigger, records.get(entry.id)) for entry in entries if entry.trigger is not None]


async def _runtime_entries(
    context: ControlContext, trigger_filter: TriggerFilter, after: str, max_scanned: int
) -> AsyncGenerator[TriggerEntry]:
    records = context.triggers.iter_runtime_triggers(
        kind=trigger_filter.type,
        app_id=trigger_filter.app_id,
        workflow=trigger_filter.workflow,
        only_paused=trigger_filter.state == "paused",
        after=after,
        limit=max_scanned,
    )
    async with aclosing(records):
        async for record in records:
            yield runtime_entry(record)


async def _merge_by_id(
    from_packages: Sequence[TriggerEntry], from_store: AsyncGenerator[TriggerEntry]
) -> AsyncGenerator[TriggerEntry]:
    waiting = list(reversed(from_packages))
    async with aclosing(from_store):
        async for entry in from_store:
            while waiting and waiting[-1].id < entry.id:
                yield waiting.pop()
            yield entry
    for entry in reversed(waiting):
        yield entry


def _listing_row(
    entry: TriggerEntry,
    trigger_filter: TriggerFilter,
    settings: Settings,
    packages: Mapping[str, Package],
    viewer: str | None,
) -> dict[str, Any] | None:
    status = trigger_status(entry, settings, packages, app_id=trigger_filter.app_id)
    if trigger_filter.state not in (None, status.state):
        return None
    return trigger_summary(entry, status, viewer=viewer)
