"""The trigger store: collection `triggers`, one document for each trigger made at run time, or of which there is
something to say: that it is paused, what it skipped and why, when a schedule fires next.
"""

from collections.abc import AsyncIterator, Mapping, Sequence, Set
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from pymongo import ASCENDING, IndexModel
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import DuplicateKeyError

from triggers.register.trigger import Trigger
from triggers.register.trigger_notes import pipeline_with_notes
from triggers.register.trigger_record import Pause, TriggerRecord, app_field_name, read_record, spec_document

MAX_PAUSED_APPS = 1000

INDEXES = (
    # What was made at run time, by kind: the watcher's and the list's question. Packages' have no `spec`.
    IndexModel(
        [("spec.type", ASCENDING), ("_id", ASCENDING)],
        name="by_kind",
        partialFilterExpression={"spec.type": {"$exists": True}},
    ),
    # The same for one app: `/v1/triggers` with an app's key.
    IndexModel(
        [("app_id", ASCENDING), ("_id", ASCENDING)],
        name="by_app",
        partialFilterExpression={"spec.type": {"$exists": True}},
    ),
    # Which schedules are due: only those that wait for a time are in it, so an idle look costs what is due.
    IndexModel(
        [("schedule.next_at", ASCENDING)],
        name="by_next_time",
        partialFilterExpression={"schedule.next_at": {"$exists": True}},
    ),
    # What is paused, as a whole or for some apps: the exporter counts it every few seconds.
    IndexModel(
        [("paused.reason", ASCENDING)],
        name="by_pause",
        partialFilterExpression={"paused.reason": {"$exists": True}},
    ),
    IndexModel(
        [("type", ASCENDING)],
        name="by_paused_apps",
        partialFilterExpression={"paused_apps": {"$exists": True}},
    ),
)


class TriggerExistsError(Exception):
    """There is a trigger with this identity already."""


class TriggerStore:
    def __init__(self, database: AsyncDatabase[dict[str, Any]]) -> None:
        self.triggers = database["triggers"]

    async def ensure_indexes(self) -> None:
        await self.triggers.create_indexes(list(INDEXES))

    async def create(self, trigger: Trigger, *, extra_fields: Mapping[str, Any] | None = None) -> None:
        """`more`: what its kind keeps of it from the start, in the same write."""
        now = datetime.now(UTC)
        document = {**_identity_fields(trigger), "spec": spec_document(trigger.spec), "revision": 1, "created_at": now}
        try:
            await self.triggers.insert_one({**document, "updated_at": now, **(extra_fields or {})})
        except DuplicateKeyError:
            raise TriggerExistsError(trigger.id) from None

    async def replace(
        self, trigger: Trigger, *, expected_revision: int, extra_fields: Mapping[str, Any] | None = None
    ) -> bool:
        """False when it is gone, or somebody else has edited it since revision `expected`."""
        changed = {
            "spec": spec_document(trigger.spec),
            "revision": expected_revision + 1,
            "updated_at": datetime.now(UTC),
            **(extra_fields or {}),
        }
        asked = {"_id": trigger.id, "revision": expected_revision, "spec": {"$exists": True}}
        return (await self.triggers.update_one(asked, {"$set": changed})).matched_count == 1

    async def remove(self, id_: str, *, expected_revision: int | None = None) -> bool:
        """Of those made at run time; its runs stay. `expected`: only if it still has that revision."""
        asked: dict[str, Any] = {"_id": id_, "spec": {"$exists": True}}
        if expected_revision is not None:
            asked["revision"] = expected_revision
        return (await self.triggers.delete_one(asked)).deleted_count == 1

    async def find(self, id_: str) -> TriggerRecord | None:
        document = await self.triggers.find_one({"_id": id_})
        return None if document is None else read_record(document)

    async def find_records(self, ids: Sequence[str]) -> Mapping[str, TriggerRecord]:
        found = self.triggers.find({"_id": {"$in": list(ids)}})
        return {document["_id"]: read_record(document) async for document in found}

    async def iter_runtime_triggers(
        self,
        *,
        kind: str | None = None,
        app_id: str | None = None,
        workflow: str | None = None,
        after: str = "",
        limit: int = 0,
    ) -> AsyncIterator[TriggerRecord]:
        """In the order of their ids, from behind `after`."""
        within = {"$gt": after} if workflow is None else {"$gt": max(after, f"{workflow}/"), "$lt": f"{workflow}0"}
        asked: dict[str, Any] = {"spec.type": {"$exists": True} if kind is None else kind, "_id": within}
        if app_id is not None:
            asked["app_id"] = app_id
        async for document in self.triggers.find(asked).sort("_id", ASCENDING).limit(limit):
            yield read_record(document)

    async def pause(self, trigger: Trigger, pause: Pause, *, app_id: str | None = None) -> None:
        """Of a package's trigger also for one of its apps alone. A second pause replaces the first one's note."""
        if app_id is None:
            change = {"paused": asdict(pause)}
        else:
            change = {f"paused_apps.{app_field_name(app_id)}": {"app_id": app_id, "pause": asdict(pause)}}
        await self._upsert(trigger, {"$set": change})

    async def pause_by_budget(self, trigger: Trigger, pause: Pause, *, app_id: str | None = None) -> bool:
        """False where somebody else has paused it: that pause stays, and outlasts the budget's."""
        place = "paused" if app_id is None else f"paused_apps.{app_field_name(app_id)}"
        value = asdict(pause) if app_id is None else {"app_id": app_id, "pause": asdict(pause)}
        first = {name: value for name, value in _identity_fields(trigger).items() if name != "_id"}
        is_of_package = trigger.app_id is None
        try:
            written = await self.triggers.update_one(
                {"_id": trigger.id, "paused": {"$exists": False}, place: {"$exists": False}},
                {"$set": {place: value}, **({"$setOnInsert": first} if is_of_package else {})},
                upsert=is_of_package,
            )
        except DuplicateKeyError:
            return False
        return written.modified_count == 1 or written.upserted_id is not None

    async def resume_by_budget(self, id_: str, *, app_id: str | None = None) -> bool:
        """Ends such a pause alone, and no other."""
        place = "paused" if app_id is None else f"paused_apps.{app_field_name(app_id)}"
        reason = f"{place}.reason" if app_id is None else f"{place}.pause.reason"
        resumed = "resumed_at" if app_id is None else f"resumed_apps.{app_field_name(app_id)}"
        change: list[Mapping[str, Any]] = [{"$unset": place}, {"$set": {resumed: "$$NOW"}}]
        return (await self.triggers.update_one({"_id": id_, reason: "budget"}, change)).modified_count == 1

    async def find_budget_pauses(self) -> Set[tuple[str, str | None]]:
        """Which triggers, and for which of their apps: None is all of them."""
        whole = self.triggers.find({"paused.reason": "budget"}, {"_id": 1})
        found: set[tuple[str, str | None]] = {(document["_id"], None) async for document in whole}
        some = self.triggers.find({"type": {"$gt": ""}, "paused_apps": {"$exists": True}}, {"paused_apps": 1})
        async for document in some:
            pauses = document["paused_apps"].values()
            found |= {(document["_id"], each["app_id"]) for each in pauses if each["pause"].get("reason") == "budget"}
        return found

    async def resume(self, trigger: Trigger, *, app_id: str | None = None) -> bool:
        """False when it was not paused. Resuming all resumes each app. When it was is kept: a schedule fires nothing of
        the time before, and failures of before count no more."""
        names = ["paused", "paused_apps"] if app_id is None else [f"paused_apps.{app_field_name(app_id)}"]
        resumed = "resumed_at" if app_id is None else f"resumed_apps.{app_field_name(app_id)}"
        was_paused = {"_id": trigger.id, "$or": [{name: {"$nin": [None, {}]}} for name in names]}
        # By the store's clock: that of whoever resumes it may be off.
        change: list[Mapping[str, Any]] = [{"$unset": names}, {"$set": {resumed: "$$NOW"}}]
        return (await self.triggers.update_one(was_paused, change)).matched_count == 1

    async def add_stats(
        self,
        trigger: Trigger,
        *,
        counts: Mapping[str, int],
        notes: Sequence[Mapping[str, Any]],
        fired_at: datetime | None,
    ) -> None:
        """Adds up what happened since the last time; of notes the newest are kept, equal ones in a row as one."""
        change: dict[str, Any] = {}
        if counts:
            change["$inc"] = {f"counts.{name}": count for name, count in counts.items()}
        if fired_at is not None:
            change["$max"] = {"last_fired_at": fired_at}
        if change or notes:
            await self._upsert(trigger, change, notes)

    async def _upsert(
        self, trigger: Trigger, change: Mapping[str, Any], notes: Sequence[Mapping[str, Any]] = ()
    ) -> None:
        """A package's trigger has no document until there is something to say; one that was removed stays removed."""
        is_of_package = trigger.app_id is None
        if is_of_package:
            first = {name: value for name, value in _identity_fields(trigger).items() if name != "_id"}
            change = {**change, "$setOnInsert": first}
        update = pipeline_with_notes(change, notes) if notes else change
        await self.triggers.update_one({"_id": trigger.id}, update, upsert=is_of_package)


def _identity_fields(trigger: Trigger) -> dict[str, Any]:
    return {
        "_id": trigger.id,
        "workflow": trigger.workflow,
        "name": trigger.spec.name,
        "type": trigger.spec.type,
        "app_id": trigger.app_id,
    }
