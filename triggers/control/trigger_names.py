"""Trigger names: `Workflow/name`, `Workflow/name@app`, or a unique name alone."""

from urllib.parse import unquote

from triggers.control.trigger_entry import ControlContext, TriggerEntry, declared_entry, package_entries, runtime_entry
from triggers.control.trigger_errors import UnknownTriggerError
from triggers.register.trigger import trigger_id
from workers.control.change_result import RefusedError
from workflows.package.trigger_specs.spec_field_types import NAME_PATTERN

MAX_NAMES_SHOWN = 5
_AFTER_AT = "A"  # the next letter: ids between W/n@ and W/nA are those of all apps


async def find_trigger(context: ControlContext, text: str, *, app_id: str | None = None) -> TriggerEntry:
    """Finds a trigger by any form of its name.

    `app_id`: the only app that the caller means or sees.
    """
    whole, _, app = text.partition("@")
    if app and app_id is not None and unquote(app) != app_id:
        raise UnknownTriggerError(text)
    wanted_app = unquote(app) if app else app_id
    workflow, slash, name = whole.partition("/")
    if app and slash:
        return await _find_for_app(context, workflow, name, unquote(app))
    if slash:
        return await find_exact(context, workflow, name, app_id=wanted_app)
    return await _find_by_name(context, whole, wanted_app)


async def find_exact(context: ControlContext, workflow: str, name: str, *, app_id: str | None) -> TriggerEntry:
    """A package's trigger goes before one of the same name created at run time."""
    for entry in package_entries(context.catalog.packages()):
        if (entry.workflow, entry.name) == (workflow, name) and (app_id is None or entry.is_for_app(app_id)):
            return await _attach_record(context, entry)
    if app_id is not None:
        return await _find_for_app(context, workflow, name, app_id)
    return await _find_in_any_app(context, workflow, name)


async def find_runtime_trigger(
    context: ControlContext, workflow: str, name: str, *, app_id: str | None
) -> TriggerEntry:
    """Finds a trigger to edit or remove, even one that a package shadows."""
    try:
        if app_id is not None:
            return await _find_for_app(context, workflow, name, app_id)
        return await _find_in_any_app(context, workflow, name)
    except UnknownTriggerError:
        return await find_exact(context, workflow, name, app_id=app_id)


async def _find_in_any_app(context: ControlContext, workflow: str, name: str) -> TriggerEntry:
    full_name = f"{workflow}/{name}"
    return await _find_single(context, full_name, {"$gt": f"{full_name}@", "$lt": f"{full_name}{_AFTER_AT}"})


async def _find_by_name(context: ControlContext, name: str, app_id: str | None) -> TriggerEntry:
    if not NAME_PATTERN.fullmatch(name):
        raise UnknownTriggerError(name)
    packages = [
        entry
        for entry in package_entries(context.catalog.packages())
        if entry.name == name and (app_id is None or entry.is_for_app(app_id))
    ]
    runtime_ids = await context.triggers.find_ids_by_name(name, app_id=app_id, limit=MAX_NAMES_SHOWN + 1)
    ids = [*(entry.id for entry in packages), *runtime_ids]
    if len(ids) > 1:
        raise RefusedError(f"several triggers are called {name}: {_join_ids(ids)}; give the whole name")
    if packages:
        return await _attach_record(context, packages[0])
    return await _find_single(context, _label(name, app_id), {"$in": ids})


async def _find_single(context: ControlContext, label: str, query: dict[str, object]) -> TriggerEntry:
    ids = await context.triggers.find_runtime_ids(query, limit=MAX_NAMES_SHOWN + 1)
    if len(ids) > 1:
        raise RefusedError(f"several apps have a trigger {label}: {_join_ids(ids)}; name the app")
    if not ids:
        raise UnknownTriggerError(label)
    return await _find_by_id(context, ids[0], label=label)


async def _find_for_app(context: ControlContext, workflow: str, name: str, app_id: str) -> TriggerEntry:
    return await _find_by_id(
        context, trigger_id(workflow, name, app_id=app_id), label=_label(f"{workflow}/{name}", app_id)
    )


async def _find_by_id(context: ControlContext, id_: str, *, label: str) -> TriggerEntry:
    record = await context.triggers.find(id_)
    if record is None:
        raise UnknownTriggerError(label)
    return runtime_entry(record)


async def _attach_record(context: ControlContext, entry: TriggerEntry) -> TriggerEntry:
    if entry.trigger is None:  # created at run time: it has its record already
        return entry
    return declared_entry(entry.trigger, await context.triggers.find(entry.id))


def _label(name: str, app_id: str | None) -> str:
    return name if app_id is None else f"{name} of {app_id}"


def _join_ids(ids: list[str]) -> str:
    shown = ", ".join(ids[:MAX_NAMES_SHOWN])
    return shown if len(ids) <= MAX_NAMES_SHOWN else f"{shown} and others"
