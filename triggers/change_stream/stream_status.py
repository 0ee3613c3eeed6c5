"""Stream status: owner, position and gaps of a stream, and the oplog window."""

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from pymongo.asynchronous.database import AsyncDatabase
from pymongo.asynchronous.mongo_client import AsyncMongoClient
from pymongo.errors import OperationFailure

from triggers.change_stream.resume_token_store import RUNNING
from workflows.package.trigger_specs.change_spec import ChangeSpec

MAX_GAPS_SHOWN = 10

Document = dict[str, Any]


async def describe_stream(stream: str, database: AsyncDatabase[Document]) -> Mapping[str, Any]:
    found = await database["streams"].find_one({"_id": stream})
    if found is None:
        return {"stream": stream, "state": "not read yet; a watcher creates it"}
    refused = found.get("refused") or {}
    lease = found.get("lease") or {}
    # The last owner stays in the document after its lease has expired.
    until = lease.get("until")
    is_held = until is not None and until > datetime.now(UTC)
    state = found.get("state", RUNNING)
    status: dict[str, Any] = {
        "stream": stream,
        "state": "refused" if refused and state == RUNNING else state,
        "owner": lease.get("owner") if is_held else None,
        "position_saved_at": found.get("token_saved_at"),
        "newest_event_at": _newest_event_time(found),
        "oplog_window_s": await oplog_window_s(database.client),
        "gaps": _newest_gaps(found.get("gaps", ())),
    }
    if refused:
        status["refused"] = refused.get("words")
    return status


async def missing_images_hint(spec: ChangeSpec, database: AsyncDatabase[Document]) -> str | None:
    """Returns how to enable images that a trigger needs and the collection lacks."""
    wants_image = spec.pre_image != "off" or spec.full_document in ("when_available", "required")
    if not wants_image or spec.collection is None:
        return None
    watched = database.client[spec.database]
    async with await watched.list_collections(filter={"name": spec.collection}) as found:
        async for collection in found:
            if collection.get("options", {}).get("changeStreamPreAndPostImages", {}).get("enabled"):
                return None
    return images_hint(spec.database, spec.collection)


def images_hint(database: str, collection: str) -> str:
    return (
        f"{database}.{collection} keeps no images of its documents; switch them on with "
        f'db.runCommand({{collMod: "{collection}", changeStreamPreAndPostImages: {{enabled: true}}}})'
    )


def _newest_gaps(gaps: Sequence[Document]) -> Sequence[Document]:
    return [{name: gap.get(name) for name in ("from", "to", "reason", "at")} for gap in gaps[-MAX_GAPS_SHOWN:]]


def _newest_event_time(document: Document) -> datetime | None:
    time = document.get("token_time")
    return None if time is None else time.as_datetime()


async def oplog_window_s(client: AsyncMongoClient[dict[str, Any]]) -> float | None:
    """Returns None without access to the oplog."""
    try:
        first = await client["local"]["oplog.rs"].find_one({}, {"ts": 1}, sort=[("$natural", 1)])
    except OperationFailure:
        return None
    return None if first is None else max(0.0, time.time() - first["ts"].time)
