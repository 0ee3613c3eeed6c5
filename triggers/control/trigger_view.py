"""Trigger views: triggers as plain data, limited to what the viewer may see."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from triggers.control.trigger_entry import ControlContext, TriggerEntry, approval_status
from triggers.control.trigger_status import TriggerStatus, trigger_status
from triggers.kind_registry import KINDS
from triggers.register.trigger import Trigger, deferred_apps_source
from triggers.register.trigger_record import Pause

OPERATOR = "operator"


def trigger_summary(entry: TriggerEntry, status: TriggerStatus, *, viewer: str | None) -> dict[str, Any]:
    """Returns a row of the listing.

    `viewer`: the app that sees only itself; None for an operator.
    """
    spec = None if entry.trigger is None else entry.trigger.spec
    record = entry.record
    whole = viewer is None or entry.is_only_for(viewer)
    schedule = {} if record is None else record.document.get("schedule") or {}
    return {
        "trigger_id": entry.id,
        "workflow": entry.workflow,
        "name": entry.name,
        "type": entry.type,
        "origin": entry.origin,
        "app_id": entry.app_id,
        "apps": list(entry.apps) if whole else [viewer],
        "apps_from": None if spec is None or entry.app_id is not None else deferred_apps_source(spec),
        "priority": None if spec is None else spec.priority,
        "description": "" if spec is None else spec.description,
        "state": status.state,
        "inactive": status.inactive if viewer is None or entry.app_id is not None else _inactive_for_viewer(status),
        "inactive_here": status.inactive_here,
        **_visible_pauses(entry, viewer),
        "last_fired_at": record.last_fired_at if record is not None and whole else None,
        "next_at": schedule.get("next_at"),
        "counts": dict(record.counts) if record is not None and whole else {},
        "revision": 0 if record is None else record.revision,
        **approval_status(entry),
    }


def visible_spec(trigger: Trigger, *, viewer: str | None) -> dict[str, Any] | None:
    """Returns the spec as its author wrote it.

    Hides other apps and the operator's secrets from an app.
    """
    try:
        spec: dict[str, Any] = json.loads(trigger.spec.model_dump_json(by_alias=True, exclude_unset=True))
    except ValueError:  # a package's file may hold bytes, which JSON cannot
        return None
    if viewer is None or trigger.app_id is not None:
        return spec
    if "apps" in spec:
        spec["apps"] = [viewer]
    if isinstance(spec.get("verify"), dict):
        spec["verify"].pop("secret", None)
    return spec


def restrict_to_viewer(trigger: Trigger, viewer: str | None) -> Trigger:
    """Returns the trigger with the viewer as its only app, for the kind to describe."""
    if viewer is None or trigger.app_id is not None or not trigger.apps:
        return trigger
    return Trigger(trigger.workflow, trigger.spec.model_copy(update={"apps": (viewer,), "app_id": None}))


def visible_notes(entry: TriggerEntry, viewer: str | None) -> list[dict[str, Any]]:
    """Returns the newest notes first.

    Of notes without an app, an app sees only a schedule's.
    """
    if entry.record is None:
        return []
    newest_first = [dict(note) for note in reversed(entry.record.notes)]
    if viewer is None or entry.is_only_for(viewer):
        return newest_first
    shared = [None] if entry.type == "schedule" else []
    return [note for note in newest_first if note.get("app_id") in (viewer, *shared)]


def event_source(entry: TriggerEntry, app_id: str | None) -> str:
    """Returns the `source` of its CloudEvents."""
    apps = entry.apps if app_id is None else (app_id,)
    app = apps[0] if len(apps) == 1 else "{app}"
    return f"/apps/{app}/workflows/{entry.workflow}/triggers/{entry.name}"


def _inactive_for_viewer(status: TriggerStatus) -> str | None:
    """Hides the reason, which may name the operator's files and secrets."""
    return None if status.inactive is None else "it is not set up here; the operator sees why"


def _visible_pauses(entry: TriggerEntry, viewer: str | None) -> Mapping[str, Any]:
    record = entry.record
    if record is None:
        return {"paused": None, "paused_apps": {}}
    if viewer is None or entry.app_id is not None:
        apps = {app_id: asdict(pause) for app_id, pause in record.paused_apps.items()}
        return {"paused": _pause_json(record.paused), "paused_apps": apps}
    viewer_pause = record.paused_apps.get(viewer)
    if record.paused is not None:  # for all apps: hide which operator did it
        return {"paused": {**asdict(record.paused), "by": OPERATOR}, "paused_apps": {}}
    return {"paused": _pause_json(viewer_pause), "paused_apps": {}}


def _pause_json(pause: Pause | None) -> dict[str, Any] | None:
    return None if pause is None else asdict(pause)


async def show(
    context: ControlContext, entry: TriggerEntry, *, app_id: str | None = None, viewer: str | None = None
) -> dict[str, Any]:
    """Shows a trigger, for `app_id` or as a whole.

    `viewer`: the app that sees only itself.
    """
    status = trigger_status(entry, context.settings, context.catalog.packages(), app_id=app_id)
    trigger, record = entry.trigger, entry.record
    document = {} if record is None else record.document
    return {
        **trigger_summary(entry, status, viewer=viewer),
        "source": event_source(entry, app_id),
        "created_at": document.get("created_at"),
        "updated_at": document.get("updated_at"),
        "spec": None if trigger is None else visible_spec(trigger, viewer=viewer),
        "outlook": await _describe(context, entry, viewer),
        "notes": visible_notes(entry, viewer),
    }


async def _describe(context: ControlContext, entry: TriggerEntry, viewer: str | None) -> dict[str, Any]:
    if entry.trigger is None:
        return {}
    visible = restrict_to_viewer(entry.trigger, viewer)
    outlook = dict(await KINDS[entry.type].describe(visible, entry.record, context.database, context.settings))
    if viewer is not None and entry.app_id is None:
        outlook.pop("secrets", None)  # references of the operator
    return outlook
