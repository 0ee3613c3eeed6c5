"""Showing one trigger: what the list tells, and its spec, its outlook, and why something started nothing."""

from typing import Any

from triggers.control.known import ControlContext, TriggerEntry
from triggers.control.standing import trigger_status
from triggers.control.telling import restrict_to_viewer, event_source, visible_notes, trigger_summary, visible_spec
from triggers.kinds import KINDS


async def show(context: ControlContext, entry: TriggerEntry, *, app_id: str | None = None, viewer: str | None = None) -> dict[str, Any]:
    """`app_id`: for which of its apps. `viewer`: the app that sees only itself."""
    standing = trigger_status(entry, context.settings, context.catalog.packages(), app_id=app_id)
    trigger, record = entry.trigger, entry.record
    document = {} if record is None else record.document
    return {
        **trigger_summary(entry, standing, viewer=viewer),
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
    seen = restrict_to_viewer(entry.trigger, viewer)
    outlook = dict(await KINDS[entry.type].describe(seen, entry.record, context.database, context.settings))
    if viewer is not None and entry.app_id is None:
        outlook.pop("secrets", None)  # the operator's, by name
    return outlook
