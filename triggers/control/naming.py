"""Naming a trigger: `Workflow/name`, `Workflow/name@app`, or the name alone where no other has it."""

import re
from typing import NoReturn
from urllib.parse import quote, unquote

from triggers.control.errors import UnknownTriggerError
from triggers.control.known import Ground, Known, declared, made, of_packages
from triggers.register.trigger import trigger_id
from workers.control.errors import RefusedError
from workflows.package.trigger_specs.values import NAME

MOST_NAMED = 5
_BEHIND_AT = "A"  # the next letter: ids between W/n@ and W/nA are those of all apps


async def find(ground: Ground, text: str, *, app_id: str | None = None) -> Known:
    """`app_id`: the one that is meant, or the only one that the caller may know of."""
    whole, _, app = text.partition("@")
    if app and app_id is not None and unquote(app) != app_id:
        raise UnknownTriggerError(text)
    meant = unquote(app) if app else app_id
    workflow, slash, name = whole.partition("/")
    if app and slash:
        return await _made_for(ground, workflow, name, unquote(app))
    return await (exact(ground, workflow, name, app_id=meant) if slash else _alone(ground, whole, meant))


async def exact(ground: Ground, workflow: str, name: str, *, app_id: str | None) -> Known:
    """A package's trigger goes before one of the same name that was made at run time."""
    for each in of_packages(ground.catalog.packages()):
        if (each.workflow, each.name) == (workflow, name) and (app_id is None or each.serves(app_id)):
            return await _with_record(ground, each)
    if app_id is not None:
        return await _made_for(ground, workflow, name, app_id)
    return await _of_any_app(ground, workflow, name)


async def made_at_run_time(ground: Ground, workflow: str, name: str, *, app_id: str | None) -> Known:
    """To be edited or removed: also one that a package's trigger of the same name has gone before since."""
    try:
        if app_id is not None:
            return await _made_for(ground, workflow, name, app_id)
        return await _of_any_app(ground, workflow, name)
    except UnknownTriggerError:
        return await exact(ground, workflow, name, app_id=app_id)


async def _of_any_app(ground: Ground, workflow: str, name: str) -> Known:
    begins = f"{workflow}/{name}"
    return await _only(ground, begins, {"$gt": f"{begins}@", "$lt": f"{begins}{_BEHIND_AT}"})


async def _alone(ground: Ground, name: str, app_id: str | None) -> Known:
    if not NAME.fullmatch(name):
        raise UnknownTriggerError(name)
    packages = [
        each
        for each in of_packages(ground.catalog.packages())
        if each.name == name and (app_id is None or each.serves(app_id))
    ]
    # Through the ids alone, in the index: as many as were made at run time, but no document is read.
    whose = "" if app_id is None else f"{re.escape(quote(app_id, safe=''))}$"
    query = {"$regex": f"/{re.escape(name)}@{whose}"}
    found = ground.triggers.triggers.find({"_id": query}, {"_id": 1}).limit(MOST_NAMED + 1)
    ids = [*(each.id for each in packages), *[document["_id"] async for document in found]]
    if len(ids) > 1:
        raise RefusedError(f"several triggers are called {name}: {_listed(ids)}; give the whole name")
    if packages:
        return await _with_record(ground, packages[0])
    return await _only(ground, _of(name, app_id), {"$in": ids})


async def _only(ground: Ground, named: str, query: dict[str, object]) -> Known:
    found = ground.triggers.triggers.find({"_id": query, "spec": {"$exists": True}}, {"_id": 1}).limit(MOST_NAMED + 1)
    ids = [document["_id"] async for document in found]
    if len(ids) > 1:
        raise RefusedError(f"several apps have a trigger {named}: {_listed(ids)}; name the app")
    return await _made(ground, ids[0], named=named) if ids else _unknown(named)


async def _made_for(ground: Ground, workflow: str, name: str, app_id: str) -> Known:
    return await _made(ground, trigger_id(workflow, name, app_id=app_id), named=_of(f"{workflow}/{name}", app_id))


async def _made(ground: Ground, id_: str, *, named: str) -> Known:
    record = await ground.triggers.find(id_)
    if record is None:
        return _unknown(named)
    return made(record)


async def _with_record(ground: Ground, each: Known) -> Known:
    if each.trigger is None:  # of packages only what can be read is there
        return each
    return declared(each.trigger, await ground.triggers.find(each.id))


def _of(named: str, app_id: str | None) -> str:
    return named if app_id is None else f"{named} of {app_id}"


def _unknown(named: str) -> NoReturn:
    raise UnknownTriggerError(named)


def _listed(ids: list[str]) -> str:
    shown = ", ".join(ids[:MOST_NAMED])
    return shown if len(ids) <= MOST_NAMED else f"{shown} and others"
