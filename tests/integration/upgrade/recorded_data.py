"""Loads what `record` has recorded, as if its roles had been killed some minutes ago."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from bson import json_util
from pymongo.asynchronous.database import AsyncDatabase
from redis.asyncio import Redis

from tests.integration.upgrade.deployment import DATABASE

DATA = Path(__file__).with_name("data")
MIN_AGE = timedelta(minutes=5)  # longer than any lease, pause or rate of the recording
_HOUR = re.compile(r"\d{4}-\d\d-\d\dT\d\d(?=[:Z])")
_MILLISECONDS = re.compile(r"\b\d{13}\b")
_AWARE = json_util.RELAXED_JSON_OPTIONS.with_options(tz_aware=True, tzinfo=UTC)

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Recording:
    """`collections` as they were loaded."""

    commit: str
    key: str
    reader: str
    hooked: str
    posted: str
    cookies: Mapping[str, str]
    collections: Mapping[str, list[Document]]
    indexes: Mapping[str, list[Document]]
    messages: list[str]

    def by_case(self) -> dict[str, Document]:
        """The runs that `record` has given names."""
        named = {run["trigger"]["id"]: run for run in self.collections["runs"] if run["trigger"]["name"] == "cli"}
        of_changes = [run for run in self.collections["runs"] if run["trigger"]["type"] == "database_condition"]
        return {**named, **{f"{run['trigger']['name']}-{n}": run for n, run in enumerate(of_changes, start=1)}}


def read_recording(database: str, *, now: datetime) -> Recording:
    """Its times are shifted by whole hours, since windows of budgets and sums of usage begin at hours."""
    meta = json.loads((DATA / "_recording.json").read_text(encoding="utf-8"))
    recorded_at = datetime.fromisoformat(meta.pop("recorded_at"))
    shift = (now - MIN_AGE - recorded_at) // timedelta(hours=1) * timedelta(hours=1)

    def text_of(path: Path) -> str:
        text = path.read_text(encoding="utf-8").replace(DATABASE, database)
        return _shift_times(text, shift, near=recorded_at)

    files = [path for path in sorted(DATA.glob("*.json")) if not path.name.startswith("_")]
    return Recording(
        **meta,
        collections={path.stem: [_read(line) for line in text_of(path).splitlines()] for path in files},
        indexes=json_util.loads((DATA / "_indexes.json").read_text(encoding="utf-8")),
        messages=[message.replace(DATABASE, database) for message in json.loads(text_of(DATA / "_messages.json"))],
    )


def _read(line: str) -> Document:
    document: Document = json_util.loads(line, json_options=_AWARE)
    return document


def _shift_times(text: str, shift: timedelta, *, near: datetime) -> str:
    """Every time near the recording, also in ids, keys and bodies; other times are none of the recording's."""

    def hour(found: re.Match[str]) -> str:
        at = datetime.strptime(found[0], "%Y-%m-%dT%H").replace(tzinfo=UTC)
        return (at + shift).strftime("%Y-%m-%dT%H") if abs(at - near) < timedelta(days=2) else found[0]

    def milliseconds(found: re.Match[str]) -> str:
        is_near = abs(int(found[0]) - near.timestamp() * 1000) < 2 * 86_400_000
        return str(int(found[0]) + round(shift.total_seconds() * 1000)) if is_near else found[0]

    return _MILLISECONDS.sub(milliseconds, _HOUR.sub(hour, text))


async def load(recording: Recording, database: AsyncDatabase[Document], redis_url: str, queue: str) -> None:
    for name, documents in recording.collections.items():
        await database.create_collection(name)
        own = [index for index in recording.indexes[name] if index["name"] != "_id_"]
        if own:
            await database.command({"createIndexes": name, "indexes": own})
        if documents:
            await database[name].insert_many(documents)
    await _renew_positions(database)
    redis = Redis.from_url(redis_url)
    await redis.rpush(queue, *recording.messages)
    await redis.aclose()


async def _renew_positions(database: AsyncDatabase[Document]) -> None:
    """A resume token is a position in the oplog of one replica set: here it gets one in this, of the same kind."""
    async with await database.watch() as changes:
        await changes.try_next()
        token = changes.resume_token
    await database["streams"].update_many({}, {"$set": {"resume_token": token}, "$unset": {"token_time": ""}})
