"""Telling of a trigger: as plain data, of which an app sees what concerns it and nothing of others."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from triggers.control.known import Known, answers_approval
from triggers.control.standing import Standing
from triggers.register.precedence import apps_come_from
from triggers.register.record import Pause
from triggers.register.trigger import Trigger

OPERATOR = "operator"


def told(known: Known, standing: Standing, *, viewer: str | None) -> dict[str, Any]:
    """`viewer`: the app that may see only itself; None for whoever operates all of them."""
    spec = None if known.trigger is None else known.trigger.spec
    record = known.record
    whole = viewer is None or known.is_only_for(viewer)
    schedule = {} if record is None else record.document.get("schedule") or {}
    return {
        "trigger_id": known.id,
        "workflow": known.workflow,
        "name": known.name,
        "type": known.type,
        "origin": known.origin,
        "app_id": known.app_id,
        "apps": list(known.apps) if whole else [viewer],
        "apps_from": None if spec is None or known.app_id is not None else apps_come_from(spec),
        "priority": None if spec is None else spec.priority,
        "description": "" if spec is None else spec.description,
        "state": standing.state,
        "inactive": standing.inactive if viewer is None or known.app_id is not None else _for_viewer(standing),
        "inactive_here": standing.inactive_here,
        **_pauses(known, viewer),
        "last_fired_at": record.last_fired_at if record is not None and whole else None,
        "next_at": schedule.get("next_at"),
        "counts": dict(record.counts) if record is not None and whole else {},
        "revision": 0 if record is None else record.revision,
        **answers_approval(known),
    }


def written_spec(trigger: Trigger, *, viewer: str | None) -> dict[str, Any] | None:
    """As its author wrote it. Of a package's trigger an app sees neither the other apps nor the operator's secrets."""
    try:
        spec: dict[str, Any] = json.loads(trigger.spec.model_dump_json(by_alias=True, exclude_unset=True))
    except ValueError:  # a package's file may hold bytes, which JSON has no form for
        return None
    if viewer is None or trigger.app_id is not None:
        return spec
    if "apps" in spec:
        spec["apps"] = [viewer]
    if isinstance(spec.get("verify"), dict):
        spec["verify"].pop("secret", None)
    return spec


def as_seen_by(trigger: Trigger, viewer: str | None) -> Trigger:
    """For what a kind tells of it: with this app as the only one."""
    if viewer is None or trigger.app_id is not None or not trigger.apps:
        return trigger
    return Trigger(trigger.workflow, trigger.spec.model_copy(update={"apps": (viewer,), "app_id": None}))


def notes_for(known: Known, viewer: str | None) -> list[dict[str, Any]]:
    """The newest first. What names no app may be about any of them, but a time of a schedule is everybody's."""
    if known.record is None:
        return []
    newest_first = [dict(note) for note in reversed(known.record.notes)]
    if viewer is None or known.is_only_for(viewer):
        return newest_first
    shared = [None] if known.type == "schedule" else []
    return [note for note in newest_first if note.get("app_id") in (viewer, *shared)]


def event_source(known: Known, app_id: str | None) -> str:
    """As its CloudEvents name it."""
    apps = known.apps if app_id is None else (app_id,)
    app = apps[0] if len(apps) == 1 else "{app}"
    return f"/apps/{app}/workflows/{known.workflow}/triggers/{known.name}"


def _for_viewer(standing: Standing) -> str | None:
    """The reason may name the operator's files and secrets."""
    return None if standing.inactive is None else "it is not set up here; whoever operates it sees why"


def _pauses(known: Known, viewer: str | None) -> Mapping[str, Any]:
    record = known.record
    if record is None:
        return {"paused": None, "paused_apps": {}}
    if viewer is None or known.app_id is not None:
        apps = {app_id: asdict(pause) for app_id, pause in record.paused_apps.items()}
        return {"paused": _pause(record.paused), "paused_apps": apps}
    own = record.paused_apps.get(viewer)
    if record.paused is not None:  # of all apps, by somebody whom this one need not know
        return {"paused": {**asdict(record.paused), "by": OPERATOR}, "paused_apps": {}}
    return {"paused": _pause(own), "paused_apps": {}}


def _pause(pause: Pause | None) -> dict[str, Any] | None:
    return None if pause is None else asdict(pause)
