"""Resuming a trigger that a stream brings its events: the pause ends, and the stream goes on from where one says."""

from triggers.change_stream.control import From, StreamControl, StreamControlError
from triggers.change_stream.store import SUSPENDED
from triggers.control.errors import NotForThisKeyError, UnfitTriggerError
from triggers.control.known import Ground, Known
from triggers.control.pausing import Paused, readable
from triggers.control.pausing import resume as end_pause
from workers.control.errors import RefusedError

_FROM_WHERE = "say from where it goes on: now, token (where it stopped), or a time"


async def resume(
    ground: Ground,
    known: Known,
    *,
    by: str,
    app_id: str | None = None,
    from_: From | None = None,
    viewer: str | None = None,
) -> Paused:
    """`from_` is felt by all triggers of the stream. `viewer`: the app whose key asks; None: one for all apps."""
    stream = StreamControl(ground.database).stream_of(readable(known))
    if from_ is None:
        resumed = await end_pause(ground, known, by=by, app_id=app_id)
        if viewer is None and stream is not None and await _is_suspended(ground, stream):
            raise RefusedError(f"{known.id} {resumed.said}, but its stream {stream} is suspended; {_FROM_WHERE}")
        return resumed
    if stream is None:
        raise RefusedError(f"{known.id} is a {known.type}: only triggers on changes or ended runs go on from a place")
    if viewer is not None:
        raise NotForThisKeyError("a stream is shared by apps: only a key for all of them moves its position")
    if app_id is not None and known.app_id is None:
        raise UnfitTriggerError({"from": "a stream goes on for all apps; leave the app out"})
    return await _with_stream(ground, known, stream, from_, by=by)


async def _with_stream(ground: Ground, known: Known, stream: str, from_: From, *, by: str) -> Paused:
    """First the pause ends: what the stream reads again would be skipped under it."""
    pause = known.pause_of(known.app_id)
    resumed = await end_pause(ground, known, by=by)
    try:
        await StreamControl(ground.database).resume(stream, from_, by=by)
    except StreamControlError as error:
        if pause is not None:  # all or nothing
            await ground.triggers.pause(readable(known), pause)
        raise RefusedError(str(error)) from None
    where = from_ if isinstance(from_, str) else from_.isoformat()
    first = f"{resumed.said}, and " if resumed.changed else ""
    return Paused(known.id, None, f"{first}goes on from {where}, with the stream {stream}")


async def _is_suspended(ground: Ground, stream: str) -> bool:
    found = await ground.database["streams"].find_one({"_id": stream, "state": SUSPENDED}, {"_id": 1})
    return found is not None
