"""Showing one trigger: what the list tells, and its spec, its outlook, and why something started nothing."""

from typing import Any

from triggers.control.known import Ground, Known
from triggers.control.standing import standing_of
from triggers.control.telling import as_seen_by, event_source, notes_for, told, written_spec
from triggers.kinds import KINDS


async def show(ground: Ground, known: Known, *, app_id: str | None = None, viewer: str | None = None) -> dict[str, Any]:
    """`app_id`: for which of its apps. `viewer`: the app that sees only itself."""
    standing = standing_of(known, ground.settings, ground.catalog.packages(), app_id=app_id)
    trigger, record = known.trigger, known.record
    document = {} if record is None else record.document
    return {
        **told(known, standing, viewer=viewer),
        "source": event_source(known, app_id),
        "created_at": document.get("created_at"),
        "updated_at": document.get("updated_at"),
        "spec": None if trigger is None else written_spec(trigger, viewer=viewer),
        "outlook": await _outlook(ground, known, viewer),
        "notes": notes_for(known, viewer),
    }


async def _outlook(ground: Ground, known: Known, viewer: str | None) -> dict[str, Any]:
    if known.trigger is None:
        return {}
    seen = as_seen_by(known.trigger, viewer)
    outlook = dict(await KINDS[known.type].outlook(seen, known.record, ground.database, ground.settings))
    if viewer is not None and known.app_id is None:
        outlook.pop("secrets", None)  # the operator's, by name
    return outlook
