"""Pausing a trigger with a note, and resuming it; of a package's trigger also for one of its apps alone."""

import logging
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from triggers.control.errors import UnfitTriggerError, UnknownTriggerError
from triggers.control.known import Ground, Known
from triggers.register.record import Pause
from triggers.register.store import MAX_PAUSED_APPS
from triggers.register.trigger import Trigger
from workers.control.errors import RefusedError

log = logging.getLogger(__name__)

MAX_NOTE_LENGTH = 500


@dataclass(frozen=True, slots=True)
class Paused:
    """`changed` is false where nothing was left to do; `said` tells people what is so now."""

    trigger_id: str
    app_id: str | None
    said: str
    changed: bool = True

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


async def pause(ground: Ground, known: Known, *, by: str, note: str = "", app_id: str | None = None) -> Paused:
    """A second pause replaces the first one's note. `app_id` None: for all of its apps."""
    if len(note) > MAX_NOTE_LENGTH:
        raise UnfitTriggerError({"note": f"is longer than {MAX_NOTE_LENGTH} characters"})
    trigger, app_id = readable(known), one_of_its_apps(known, app_id)
    paused_apps = {} if known.record is None else known.record.paused_apps
    if app_id is not None and app_id not in paused_apps and len(paused_apps) >= MAX_PAUSED_APPS:
        raise RefusedError(f"{known.id} is paused for {MAX_PAUSED_APPS} apps already; pause it for all of them")
    await ground.triggers.pause(trigger, Pause(datetime.now(UTC), by, note), app_id=app_id)
    log.info("trigger_paused", extra={"trigger": known.id, "app_id": app_id, "by": by})
    return Paused(known.id, app_id, f"is paused{for_app(app_id)}")


async def resume(ground: Ground, known: Known, *, by: str, app_id: str | None = None) -> Paused:
    """Without `app_id` each pause of a single app ends too."""
    trigger, app_id = readable(known), one_of_its_apps(known, app_id)
    if app_id is not None and known.record is not None and known.record.paused is not None:
        raise RefusedError(f"{known.id} is paused for all apps, and can only be resumed for all of them")
    changed = await ground.triggers.resume(trigger, app_id=app_id)
    if changed:
        log.info("trigger_resumed", extra={"trigger": known.id, "app_id": app_id, "by": by})
    said = f"is resumed{for_app(app_id)}" if changed else f"was not paused{for_app(app_id)}"
    return Paused(known.id, app_id, said, changed=changed)


def readable(known: Known) -> Trigger:
    if known.trigger is None:
        raise RefusedError(f"{known.id} was written by another version of Unattended; remove it, or use that version")
    return known.trigger


def one_of_its_apps(known: Known, app_id: str | None) -> str | None:
    """A trigger that was made at run time has one app, so that naming it says nothing."""
    if app_id is not None and not known.serves(app_id):
        raise UnknownTriggerError(f"{known.workflow}/{known.name} of {app_id}")
    return None if known.app_id is not None else app_id


def for_app(app_id: str | None) -> str:
    return "" if app_id is None else f" for {app_id}"
