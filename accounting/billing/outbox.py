"""The outbox: batches of billing events that wait to be posted.

1. `add` makes batches of ledger rows in the transaction of the roll-up: each row that is in the totals is in exactly
   one batch, whichever process is killed when. A batch stores its bytes exactly as they are sent.
2. `claim` takes the batch that has been due longest, and makes it due again later: if its sender dies, another one
   claims it then. So a batch may be posted twice, under the same id, and is never lost.
3. Delivered batches are deleted after a week; dead ones stay until a person replays or drops them.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pymongo import ASCENDING, IndexModel, ReturnDocument, UpdateOne
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.asynchronous.database import AsyncDatabase
from ulid import ULID

from accounting.billing.billing_event import format_time, to_billing_event
from accounting.ledger.ledger_rows import CORRECTS

COLLECTION = "outbox"
PENDING, DELIVERED, DEAD = "pending", "delivered", "dead"
STATES = (PENDING, DELIVERED, DEAD)

MAX_EVENTS = 50
MAX_BYTES = 20_000  # as Standard Webhooks advises
CLAIM_TIMEOUT_S = 60.0  # longer than any post takes
DELIVERED_RETENTION_S = 7 * 24 * 3600

BY_DUE = "by_due"
BY_STATE = "by_state"
INDEXES = (
    IndexModel([("due_at", ASCENDING)], name=BY_DUE, partialFilterExpression={"state": PENDING}),
    IndexModel([("state", ASCENDING), ("created_at", ASCENDING)], name=BY_STATE),
    IndexModel([("delivered_at", ASCENDING)], name="by_delivery", expireAfterSeconds=DELIVERED_RETENTION_S),
)


@dataclass(frozen=True, slots=True)
class OutboxState:
    pending: int
    dead: int
    oldest_pending_age_s: float


@dataclass(frozen=True, slots=True)
class ClaimedBatch:
    """A batch that one sender has claimed. `failures` counts earlier posts."""

    id: str
    claim: str
    body: bytes
    failures: int


class Outbox:
    def __init__(self, database: AsyncDatabase[dict[str, Any]]) -> None:
        self._batches = database[COLLECTION]

    async def ensure_indexes(self) -> None:
        await self._batches.create_indexes(list(INDEXES))

    async def add(self, rows: Sequence[Mapping[str, Any]], session: AsyncClientSession | None) -> None:
        """Adds batches of `rows`, which still have their marks.

        All times but those in bodies come from the clock of the database.
        """
        batches = [_insert_command(body, events) for body, events in build_bodies(rows, at=datetime.now(UTC))]
        if batches:
            await self._batches.bulk_write(batches, ordered=False, session=session)

    async def claim(self) -> ClaimedBatch | None:
        claim = str(ULID())
        batch = await self._batches.find_one_and_update(
            {"state": PENDING, "$expr": {"$lte": ["$due_at", "$$NOW"]}},
            [{"$set": {"due_at": _from_now(CLAIM_TIMEOUT_S), "claim": claim}}],
            sort=[("due_at", ASCENDING)],
            hint=BY_DUE,
            return_document=ReturnDocument.AFTER,
        )
        return None if batch is None else ClaimedBatch(batch["_id"], claim, batch["body"].encode(), batch["failures"])

    async def mark_delivered(self, batch: ClaimedBatch) -> None:
        """Marks a batch as delivered, even if the claim was lost meanwhile: it has arrived."""
        await self._batches.update_one(
            {"_id": batch.id, "state": {"$ne": DELIVERED}},
            [{"$set": {"state": DELIVERED, "delivered_at": "$$NOW"}}, {"$unset": ["due_at", "claim"]}],
        )

    async def mark_failed(self, batch: ClaimedBatch, reason: str, *, retry_in_s: float | None) -> None:
        """Schedules the next try of a batch, or marks it as dead if `retry_in_s` is None."""
        failure = {"failures": batch.failures + 1, "last_failure": {"at": "$$NOW", "what": {"$literal": reason}}}
        update: list[dict[str, Any]] = (
            [{"$set": {**failure, "state": DEAD}}, {"$unset": ["due_at", "claim"]}]
            if retry_in_s is None
            else [{"$set": {**failure, "due_at": _from_now(retry_in_s)}}, {"$unset": "claim"}]
        )
        await self._batches.update_one({"_id": batch.id, "claim": batch.claim}, update)

    async def release(self, batch: ClaimedBatch) -> None:
        """Releases an untried or interrupted batch: another sender may claim it at once."""
        await self._batches.update_one({"_id": batch.id, "claim": batch.claim}, [{"$set": {"due_at": "$$NOW"}}])


async def read_outbox_state(database: AsyncDatabase[dict[str, Any]]) -> OutboxState:
    batches = database[COLLECTION]
    age_ms = {"$subtract": ["$$NOW", "$created_at"]}
    oldest = await batches.aggregate(
        [{"$match": {"state": PENDING}}, {"$sort": {"created_at": 1}}, {"$limit": 1}, {"$project": {"age_ms": age_ms}}]
    )
    return OutboxState(
        pending=await batches.count_documents({"state": PENDING}),
        dead=await batches.count_documents({"state": DEAD}),
        oldest_pending_age_s=max(sum([batch["age_ms"] async for batch in oldest]) / 1000, 0.0),
    )


def build_bodies(rows: Sequence[Mapping[str, Any]], *, at: datetime) -> Iterator[tuple[str, int]]:
    """Yields the text and the number of events of each batch, at least one event each."""
    head = f'{{"type":"usage.batch","timestamp":"{format_time(at)}","data":{{"events":['
    tail = "]}}"
    texts: list[str] = []
    free = room = MAX_BYTES - len(head) - len(tail)
    for row in rows:
        event = _event_text(row)
        needed = len(event.encode()) + 1
        if texts and (needed > free or len(texts) == MAX_EVENTS):
            yield f"{head}{','.join(texts)}{tail}", len(texts)
            texts, free = [], room
        texts.append(event)
        free -= needed
    if texts:
        yield f"{head}{','.join(texts)}{tail}", len(texts)


def _event_text(row: Mapping[str, Any]) -> str:
    event = {**to_billing_event(row), "corrects": row.get("rollup") == CORRECTS}
    return json.dumps(event, ensure_ascii=False, separators=(",", ":"))


def _insert_command(body: str, events: int) -> UpdateOne:
    """Builds the insert of a batch, as an upsert.

    A plain insert cannot read the clock of the database.
    """
    batch = {"state": PENDING, "body": {"$literal": body}, "events": events, "failures": 0}
    return UpdateOne(
        {"_id": f"batch_{ULID()}"}, [{"$set": {**batch, "created_at": "$$NOW", "due_at": "$$NOW"}}], upsert=True
    )


def _from_now(seconds: float) -> dict[str, Any]:
    return {"$add": ["$$NOW", round(seconds * 1000)]}
