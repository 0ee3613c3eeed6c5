"""From a change event to run requests, for one trigger."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from triggers.change_stream.watches import Watch
from triggers.payload import PayloadError, holds, resolve, resolve_text
from workers.store.run import RunRequest, TriggerEvent

MAX_APP_ID_LENGTH = 200


def run_requests(watch: Watch, event: Mapping[str, Any], *, event_id: str, fired_at: datetime) -> list[RunRequest]:
    """`event` is plain JSON. Empty when `when` is false; PayloadError when the event cannot be mapped."""
    spec = watch.spec
    if not holds(spec.when, event):
        return []
    trigger = TriggerEvent("database_condition", spec.name, event_id, fired_at=fired_at)
    run_input = resolve(spec.input, event)
    message = resolve_text(spec.message, event)
    return [
        RunRequest(
            app_id=app_id,
            workflow=watch.workflow,
            trigger=trigger,
            input=run_input,
            message=message,
            priority=spec.priority,
        )
        for app_id in spec.apps or (_selected_app(spec.app_id, event),)
    ]


def _selected_app(mapped: Any, event: Mapping[str, Any]) -> str:
    app_id = resolve_text(mapped, event)
    if not app_id or len(app_id) > MAX_APP_ID_LENGTH or not app_id.isprintable():
        raise PayloadError(f"app_id {mapped!r} selects no usable name")
    return app_id
