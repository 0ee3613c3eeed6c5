"""Trigger pauses: pauses and resumes a trigger, as a whole or for one app."""

import logging
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from triggers.change_stream.resume_token_store import SUSPENDED
from triggers.change_stream.stream_control import ResumeFrom, StreamControl, StreamControlError
from triggers.control.trigger_entry import ControlContext, TriggerEntry
from triggers.control.trigger_errors import NotForThisKeyError, UnfitTriggerError, UnknownTriggerError
from triggers.register.trigger import Trigger
from triggers.register.trigger_record import Pause
from triggers.register.trigger_store import MAX_PAUSED_APPS
from workers.control.change_result import RefusedError

log = logging.getLogger(__name__)

MAX_NOTE_LENGTH = 500

_RESUME_HINT = "say where it resumes: now, token (where it stopped), or a time"


@dataclass(frozen=True, slots=True)
class PauseResult:
    """`changed` is false when nothing was left to do. `said` is the state in words."""

    trigger_id: str
    app_id: str | None
    said: str
    changed: bool = True

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


async def pause(
    context: ControlContext, entry: TriggerEntry, *, by: str, note: str = "", app_id: str | None = None
) -> PauseResult:
    """Pauses a trigger, for all its apps without `app_id`.

    A second pause replaces the first.
    """
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
    """Ends a pause. Without `app_id`, the pauses of single apps end too."""
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
    """Checks the app, and drops it for a runtime trigger, which has only one."""
    if app_id is not None and not entry.is_for_app(app_id):
        raise UnknownTriggerError(f"{entry.workflow}/{entry.name} of {app_id}")
    return None if entry.app_id is not None else app_id


def for_app_text(app_id: str | None) -> str:
    return "" if app_id is None else f" for {app_id}"


async def resume(
    context: ControlContext,
    entry: TriggerEntry,
    *,
    by: str,
    app_id: str | None = None,
    from_: ResumeFrom | None = None,
    viewer: str | None = None,
) -> PauseResult:
    """Resumes a trigger. `from_` moves its stream, for all triggers of the stream.

    `viewer`: the app of the caller's key; None for a key of all apps.
    """
    stream = StreamControl(context.database).stream_id_of(require_readable(entry))
    if from_ is None:
        resumed = await end_pause(context, entry, by=by, app_id=app_id)
        if viewer is None and stream is not None and await _is_suspended(context, stream):
            raise RefusedError(f"{entry.id} {resumed.said}, but its stream {stream} is suspended; {_RESUME_HINT}")
        return resumed
    if stream is None:
        raise RefusedError(f"{entry.id} is a {entry.type}: only triggers on changes or ended runs have a position")
    if viewer is not None:
        raise NotForThisKeyError("a stream is shared by apps: only a key for all of them moves its position")
    if app_id is not None and entry.app_id is None:
        raise UnfitTriggerError({"from": "a stream resumes for all apps; leave the app out"})
    return await _resume_stream(context, entry, stream, from_, by=by)


async def _resume_stream(
    context: ControlContext, entry: TriggerEntry, stream: str, from_: ResumeFrom, *, by: str
) -> PauseResult:
    """Ends the pause first: it would skip the events that the stream reads again."""
    pause = entry.pause_of(entry.app_id)
    resumed = await end_pause(context, entry, by=by)
    try:
        await StreamControl(context.database).resume(stream, from_, by=by)
    except StreamControlError as error:
        if pause is not None:  # restores the pause: both steps, or none
            await context.triggers.pause(require_readable(entry), pause)
        raise RefusedError(str(error)) from None
    where = from_ if isinstance(from_, str) else from_.isoformat()
    first = f"{resumed.said}, and " if resumed.changed else ""
    return PauseResult(entry.id, None, f"{first}goes on from {where}, with the stream {stream}")


async def _is_suspended(context: ControlContext, stream: str) -> bool:
    found = await context.database["streams"].find_one({"_id": stream, "state": SUSPENDED}, {"_id": 1})
    return found is not None
