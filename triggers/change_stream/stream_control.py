"""Stream control: resumes a suspended stream, or moves a running one.

The new position is written together with the removal of the lease. The reader can then save nothing, reads the stream
document again, and goes on from there: an old position can never win.
"""

import logging
from datetime import UTC, datetime
from typing import Any, Literal

from bson.timestamp import Timestamp
from pymongo.asynchronous.database import AsyncDatabase

from triggers.change_stream.resume_token_store import FREE_LEASE, RUNNING, SUSPENDED, Gap, read_gaps
from triggers.change_stream.stream_plan import stream_database, stream_id_of
from triggers.change_stream.stream_source import PositionUnusableError, StreamSource
from triggers.register.trigger import Trigger

log = logging.getLogger(__name__)

NOW: Literal["now"] = "now"
TOKEN: Literal["token"] = "token"  # noqa: S105 -- a position in a stream, not a secret
ResumeFrom = Literal["now", "token"] | datetime


class StreamControlError(Exception):
    """The text has the reason and what to do."""


class StreamNotFoundError(StreamControlError):
    def __init__(self, stream: str) -> None:
        super().__init__(f"no stream {stream} yet; a watcher with one of its triggers creates it")


class ResumeRefusedError(StreamControlError):
    """The stream cannot go on from there; nothing was changed."""


class StreamControl:
    def __init__(self, database: AsyncDatabase[dict[str, Any]]) -> None:
        """`database` is our own, on the server that is watched."""
        self._database = database
        self._streams = database["streams"]

    def stream_id_of(self, trigger: Trigger) -> str | None:
        """Returns the trigger's stream; None for kinds without one."""
        return stream_id_of(trigger, own_database=self._database.name)

    async def resume(self, stream: str, from_: ResumeFrom, *, by: str = "operator") -> None:
        """Moves the stream; readers follow within seconds.

        `now` skips the events since the saved position; `token` tries that position again; a time may also go back.
        Then all triggers of the stream read the events since again, and runs that still exist do not start twice.
        """
        found = await self._streams.find_one({"_id": stream})
        if found is None:
            raise StreamNotFoundError(stream)
        now = datetime.now(UTC)
        change: dict[str, Any] = {"state": RUNNING, "lease": FREE_LEASE}
        until: datetime | None = now
        if from_ == TOKEN:
            if found.get("resume_token") is None and found.get("token_time") is None:
                raise ResumeRefusedError(f"{stream} has no saved position; use --from now or --from TIME")
            until = None
        elif isinstance(from_, datetime):
            change |= {"resume_token": None, "token_time": await self._reachable_position(stream, from_, now)}
            until = from_
        else:
            # A time instead of no position: it may take a while until a watcher reads the stream again.
            moment = await StreamSource(self._database.client, stream_database(stream)).current_time()
            change |= {"resume_token": None, "token_time": moment}
        gaps = _close_gaps(read_gaps(found), until=until, is_suspended=found.get("state") == SUSPENDED)
        if until == now and found.get("state") != SUSPENDED:
            gaps = [*gaps, Gap(found.get("token_saved_at"), now, "resumed_from_now")]
        resumed = {"from": from_, "by": by, "at": now}
        change |= {"gaps": [gap.as_document() for gap in gaps], "resumed": resumed}
        # Writes only if the gaps are as read, so that no new gap is lost.
        written = await self._streams.update_one({"_id": stream, "gaps": found.get("gaps", [])}, {"$set": change})
        if written.matched_count == 0:
            raise ResumeRefusedError(f"{stream} was changed at the same time; check it and try again")
        log.info("stream_resumed", extra={"stream": stream, "from": str(from_), "by": by})

    async def _reachable_position(self, stream: str, moment: datetime, now: datetime) -> Timestamp:
        if moment.tzinfo is None:
            raise ResumeRefusedError("a time needs its offset, such as 2026-12-24T18:00+01:00")
        if moment > now:
            raise ResumeRefusedError(f"{moment.isoformat()} is in the future; use --from now")
        position = Timestamp(moment, 0) if moment.timestamp() >= 1 else Timestamp(1, 0)
        try:
            await StreamSource(self._database.client, stream_database(stream)).check_reachable(position)
        except PositionUnusableError:
            raise ResumeRefusedError(
                f"MongoDB's oplog no longer reaches back to {moment.isoformat()}; "
                "give a later time (`triggers show` has the oplog's window) or use --from now"
            ) from None
        return position


def _close_gaps(gaps: list[Gap], *, until: datetime | None, is_suspended: bool) -> list[Gap]:
    """Closes the open gap at `until`, or drops it if `until` is before it."""
    if not is_suspended:
        return gaps
    kept = []
    for gap in gaps:
        if gap.end is not None:
            kept.append(gap)
        elif until is not None and (gap.start is None or gap.start < until):
            kept.append(gap.close_at(until))
    return kept
