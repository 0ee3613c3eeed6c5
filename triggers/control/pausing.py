"""Pausing a trigger with a note, and resuming it; of a package's trigger also for one of its apps alone."""

import logging
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from triggers.control.errors import UnfitTriggerError, UnknownTriggerError
from triggers.control.known import ControlContext, TriggerEntry
from triggers.register.record import Pause
from triggers.register.store import MAX_PAUSED_APPS
from triggers.register.trigger import Trigger
from workers.control.errors import RefusedError

log = logging.getLogger(__name__)

MAX_NOTE_LENGTH = 500


@dataclass(frozen=True, slots=True)
class PauseResult:
    """`changed` is false where nothing was left to do; `said` tells people what is so now."""

    trigger_id: str
    app_id: str | None
    said: str
    changed: bool = True

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


async def pause(context: ControlContext, entry: TriggerEntry, *, by: str, note: str = "", app_id: str | None = None) -> PauseResult:
    """A second pause replaces the first one's note. `app_id` None: for all of its apps."""
    if len(note) > MAX_NOTE_LENGTH:
        raise UnfitTriggerError({"note": f"is longer than {MAX_NOTE_LENGTH} characters"})
    trigger, app_id = require_readable(entry), normalize_app(entry, app_id)
    paused_apps = {} if entry.record is None else entry.record.paused_apps
    if app_id is not None and app_id not in paused_apps and len(paused_apps) >= MAX_PAUSED_APPS:
        raise RefusedError(f"{entry.id} is paused for {MAX_PAUSED_APPS} apps already; pause it for all of them")
    await context.triggers.pause(trigger, Pause(datetime.now(UTC), by, note), app_id=app_id)
    log.info("trigger_paused", extra={"trigger": entry.id, "app_id": app_id, "by": by})
    return PauseResult(entry.id, app_id, f"is paused{for_app_text(app_id)}")


async def end_pause(context: ControlContext, entry: TriggerEntry, *, by: str, app_id: str | None = None) -> PauseResult:
    """Without `app_id` each pause of a single app ends too."""
    trigger, app_id = require_readable(entry), normalize_app(entry, app_id)
    if app_id is not None and entry.record is not None and entry.record.paused is not None:
        raise RefusedError(f"{entry.id} is paused for all apps, and can only be resumed for all of them")
    changed = await context.triggers.resume(trigger, app_id=app_id)
    if changed:
        log.info("trigger_resumed", extra={"trigger": entry.id, "app_id": app_id, "by": by})
    said = f"is resumed{for_app_text(app_id)}" if changed else f"was not paused{for_app_text(app_id)}"
    return PauseResult(entry.id, app_id, said, changed=changed)


def require_readable(entry: TriggerEntry) -> Trigger:
    if entry.trigger is None:
        raise RefusedError(f"{entry.id} was written by another version of Unattended; remove it, or use that version")
    return entry.trigger


def normalize_app(entry: TriggerEntry, app_id: str | None) -> str | None:
    """A trigger that was made at run time has one app, so that naming it says nothing."""
    if app_id is not None and not entry.is_for_app(app_id):
        raise UnknownTriggerError(f"{entry.workflow}/{entry.name} of {app_id}")
    return None if entry.app_id is not None else app_id


def for_app_text(app_id: str | None) -> str:
    return "" if app_id is None else f" for {app_id}"
