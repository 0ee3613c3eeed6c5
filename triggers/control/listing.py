"""Listing triggers: those of packages and those made at run time, in the order of their ids."""

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from pymongo import ASCENDING

from triggers.control.known import Ground, Known, declared, made, of_packages
from triggers.control.standing import State, standing_of
from triggers.control.telling import told
from triggers.register.record import read_record
from workers.settings import Settings
from workflows.package.models import Package

BATCH = 500  # reading a spec takes time, and others wait for the same loop meanwhile
_BEHIND_SLASH = "0"  # the next character: ids between W/ and W0 are those of one workflow


@dataclass(frozen=True, slots=True)
class Wanted:
    app_id: str | None = None
    workflow: str | None = None
    type: str | None = None
    state: State | None = None

    def takes(self, known: Known) -> bool:
        """All but the state, which takes a look at more than the trigger."""
        return (
            (self.app_id is None or known.serves(self.app_id))
            and self.workflow in (None, known.workflow)
            and self.type in (None, known.type)
        )


async def each_trigger(
    ground: Ground, wanted: Wanted, *, viewer: str | None = None, after: str = "", limit: int = 0, looks: int = 0
) -> AsyncGenerator[dict[str, Any]]:
    """From behind the id `after`; `limit` 0 is all. `viewer`: the app that sees only itself. `looks`: of those made at
    run time only so many are looked at, for whoever rather knows less than waits for a hundred thousand."""
    packages = ground.catalog.packages()
    from_packages = await _with_records(ground, list(_declared(packages, wanted, after)))
    found = 0
    async with aclosing(_merged(from_packages, _made_at_run_time(ground, wanted, after, looks))) as both:
        async for known in both:
            row = _row(known, wanted, ground.settings, packages, viewer)
            if row is not None:
                yield row
                found += 1
            if limit and found == limit:
                return


def list_of_packages(settings: Settings, packages: Mapping[str, Package], wanted: Wanted) -> list[dict[str, Any]]:
    """Without a store, which would know what is paused and what was made at run time."""
    rows = (_row(known, wanted, settings, packages, None) for known in _declared(packages, wanted, ""))
    return [row for row in rows if row is not None]


def _declared(packages: Mapping[str, Package], wanted: Wanted, after: str) -> Iterator[Known]:
    found = (each for each in of_packages(packages) if each.id > after and wanted.takes(each))
    return iter(sorted(found, key=lambda each: each.id))


async def _with_records(ground: Ground, found: Sequence[Known]) -> list[Known]:
    records = await ground.triggers.records([each.id for each in found])
    return [declared(each.trigger, records.get(each.id)) for each in found if each.trigger is not None]


async def _made_at_run_time(ground: Ground, wanted: Wanted, after: str, looks: int) -> AsyncGenerator[Known]:
    found = ground.triggers.triggers.find(made_query(wanted, after)).sort("_id", ASCENDING).batch_size(BATCH)
    async with found.limit(looks):
        async for document in found:
            yield made(read_record(document))


def made_query(wanted: Wanted, after: str) -> dict[str, Any]:
    """In the order of ids an index answers it: that of the app, of the kind, or of the ids themselves."""
    within: dict[str, Any] = {"$gt": after}
    if wanted.workflow is not None:
        within = {"$gt": max(after, f"{wanted.workflow}/"), "$lt": f"{wanted.workflow}{_BEHIND_SLASH}"}
    asked: dict[str, Any] = {"_id": within, "spec.type": wanted.type or {"$exists": True}}
    if wanted.app_id is not None:
        asked["app_id"] = wanted.app_id
    if wanted.state == "paused":
        asked["paused.at"] = {"$exists": True}
    return asked


async def _merged(first: Sequence[Known], then: AsyncGenerator[Known]) -> AsyncGenerator[Known]:
    waiting = list(reversed(first))
    async with aclosing(then):
        async for known in then:
            while waiting and waiting[-1].id < known.id:
                yield waiting.pop()
            yield known
    for known in reversed(waiting):
        yield known


def _row(
    known: Known, wanted: Wanted, settings: Settings, packages: Mapping[str, Package], viewer: str | None
) -> dict[str, Any] | None:
    standing = standing_of(known, settings, packages, app_id=wanted.app_id)
    if wanted.state not in (None, standing.state):
        return None
    return told(known, standing, viewer=viewer)
