"""Resuming a trigger that a stream brings its events: the pause ends, and the stream goes on from where one says."""

from triggers.change_stream.control import ResumeFrom, StreamControl, StreamControlError
from triggers.change_stream.store import SUSPENDED
from triggers.control.errors import NotForThisKeyError, UnfitTriggerError
from triggers.control.known import ControlContext, TriggerEntry
from triggers.control.pausing import PauseResult, require_readable
from triggers.control.pausing import end_pause as end_pause
from workers.control.errors import RefusedError

_RESUME_HINT = "say from where it goes on: now, token (where it stopped), or a time"


async def resume(
    context: ControlContext,
    entry: TriggerEntry,
    *,
    by: str,
    app_id: str | None = None,
    from_: ResumeFrom | None = None,
    viewer: str | None = None,
) -> PauseResult:
    """`from_` is felt by all triggers of the stream. `viewer`: the app whose key asks; None: one for all apps."""
    stream = StreamControl(context.database).stream_id_of(require_readable(entry))
    if from_ is None:
        resumed = await end_pause(context, entry, by=by, app_id=app_id)
        if viewer is None and stream is not None and await _is_suspended(context, stream):
            raise RefusedError(f"{entry.id} {resumed.said}, but its stream {stream} is suspended; {_RESUME_HINT}")
        return resumed
    if stream is None:
        raise RefusedError(f"{entry.id} is a {entry.type}: only triggers on changes or ended runs go on from a place")
    if viewer is not None:
        raise NotForThisKeyError("a stream is shared by apps: only a key for all of them moves its position")
    if app_id is not None and entry.app_id is None:
        raise UnfitTriggerError({"from": "a stream goes on for all apps; leave the app out"})
    return await _resume_stream(context, entry, stream, from_, by=by)


async def _resume_stream(context: ControlContext, entry: TriggerEntry, stream: str, from_: ResumeFrom, *, by: str) -> PauseResult:
    """First the pause ends: what the stream reads again would be skipped under it."""
    pause = entry.pause_of(entry.app_id)
    resumed = await end_pause(context, entry, by=by)
    try:
        await StreamControl(context.database).resume(stream, from_, by=by)
    except StreamControlError as error:
        if pause is not None:  # all or nothing
            await context.triggers.pause(require_readable(entry), pause)
        raise RefusedError(str(error)) from None
    where = from_ if isinstance(from_, str) else from_.isoformat()
    first = f"{resumed.said}, and " if resumed.changed else ""
    return PauseResult(entry.id, None, f"{first}goes on from {where}, with the stream {stream}")


async def _is_suspended(context: ControlContext, stream: str) -> bool:
    found = await context.database["streams"].find_one({"_id": stream, "state": SUSPENDED}, {"_id": 1})
    return found is not None
