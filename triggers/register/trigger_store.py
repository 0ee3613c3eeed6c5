"""The trigger store: the collection `triggers`.

It has a document for each trigger created at run time, and for each package trigger with a pause, stats or a schedule.
"""

import re
from collections.abc import AsyncGenerator, Mapping, Sequence, Set
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from pymongo import ASCENDING, IndexModel
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import DuplicateKeyError

from triggers.register.skip_notes import pipeline_with_notes
from triggers.register.trigger import Trigger
from triggers.register.trigger_record import Pause, TriggerRecord, app_field_name, read_record, spec_document

MAX_PAUSED_APPS = 1000
BATCH_SIZE = 500  # reading a spec takes time, and other tasks wait for the loop meanwhile
_AFTER_SLASH = "0"  # the next character: ids between W/ and W0 are those of one workflow

INDEXES = (
    # Triggers created at run time, by kind: for the watcher and the listing. Those of packages have no `spec`.
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
    # Due schedules. Only schedules with a next time are in it, so a check costs what is due.
    IndexModel(
        [("schedule.next_at", ASCENDING)],
        name="by_next_time",
        partialFilterExpression={"schedule.next_at": {"$exists": True}},
    ),
    # Paused triggers, as a whole or for some apps: the exporter counts them every few seconds.
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
    """A trigger with this identity exists."""


class TriggerStore:
    def __init__(self, database: AsyncDatabase[dict[str, Any]]) -> None:
        self.triggers = database["triggers"]

    async def ensure_indexes(self) -> None:
        await self.triggers.create_indexes(list(INDEXES))

    async def create(self, trigger: Trigger, *, extra_fields: Mapping[str, Any] | None = None) -> None:
        """Creates a trigger. `extra_fields` are those of its kind, in the same write."""
        now = datetime.now(UTC)
        document = {**_identity_fields(trigger), "spec": spec_document(trigger.spec), "revision": 1, "created_at": now}
        try:
            await self.triggers.insert_one({**document, "updated_at": now, **(extra_fields or {})})
        except DuplicateKeyError:
            raise TriggerExistsError(trigger.id) from None

    async def replace(
        self, trigger: Trigger, *, expected_revision: int, extra_fields: Mapping[str, Any] | None = None
    ) -> bool:
        """Returns False when it is gone, or was edited since `expected_revision`."""
        changed = {
            "spec": spec_document(trigger.spec),
            "revision": expected_revision + 1,
            "updated_at": datetime.now(UTC),
            **(extra_fields or {}),
        }
        query = {"_id": trigger.id, "revision": expected_revision, "spec": {"$exists": True}}
        return (await self.triggers.update_one(query, {"$set": changed})).matched_count == 1

    async def remove(self, id_: str, *, expected_revision: int | None = None) -> bool:
        """Removes a trigger created at run time, if it still has that revision.

        Its runs stay.
        """
        query: dict[str, Any] = {"_id": id_, "spec": {"$exists": True}}
        if expected_revision is not None:
            query["revision"] = expected_revision
        return (await self.triggers.delete_one(query)).deleted_count == 1

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
        only_paused: bool = False,
        after: str = "",
        limit: int = 0,
    ) -> AsyncGenerator[TriggerRecord]:
        """Yields records in the order of their ids, after the id `after`.

        `limit` 0 is all.
        """
        query = runtime_query(kind=kind, app_id=app_id, workflow=workflow, only_paused=only_paused, after=after)
        found = self.triggers.find(query, batch_size=BATCH_SIZE).sort("_id", ASCENDING).limit(limit)
        async with found:
            async for document in found:
                yield read_record(document)

    async def count_runtime_triggers(self, app_id: str | None, *, limit: int) -> int:
        """Counts up to `limit`. `app_id` None: of all apps."""
        return await self.triggers.count_documents(runtime_query(app_id=app_id), limit=limit)

    async def find_runtime_ids(self, id_query: Mapping[str, Any], *, limit: int) -> list[str]:
        found = self.triggers.find({"_id": id_query, "spec": {"$exists": True}}, {"_id": 1}).limit(limit)
        return [document["_id"] async for document in found]

    async def find_ids_by_name(self, name: str, *, app_id: str | None, limit: int) -> list[str]:
        """Scans the ids of the index and reads no document."""
        suffix = "" if app_id is None else f"{re.escape(quote(app_id, safe=''))}$"
        query = {"_id": {"$regex": f"/{re.escape(name)}@{suffix}"}}
        return [document["_id"] async for document in self.triggers.find(query, {"_id": 1}).limit(limit)]

    async def pause(self, trigger: Trigger, pause: Pause, *, app_id: str | None = None) -> None:
        """Pauses a trigger, or a package's trigger for one app.

        A second pause replaces the first.
        """
        if app_id is None:
            change = {"paused": asdict(pause)}
        else:
            change = {f"paused_apps.{app_field_name(app_id)}": {"app_id": app_id, "pause": asdict(pause)}}
        await self._upsert(trigger, {"$set": change})

    async def pause_by_budget(self, trigger: Trigger, pause: Pause, *, app_id: str | None = None) -> bool:
        """Returns False for a paused trigger: its pause outlasts the budget's."""
        field = "paused" if app_id is None else f"paused_apps.{app_field_name(app_id)}"
        value = asdict(pause) if app_id is None else {"app_id": app_id, "pause": asdict(pause)}
        first = {name: value for name, value in _identity_fields(trigger).items() if name != "_id"}
        is_of_package = trigger.app_id is None
        try:
            written = await self.triggers.update_one(
                {"_id": trigger.id, "paused": {"$exists": False}, field: {"$exists": False}},
                {"$set": {field: value}, **({"$setOnInsert": first} if is_of_package else {})},
                upsert=is_of_package,
            )
        except DuplicateKeyError:
            return False
        return written.modified_count == 1 or written.upserted_id is not None

    async def resume_by_budget(self, id_: str, *, app_id: str | None = None) -> bool:
        """Ends a pause by budget, and no other."""
        field = "paused" if app_id is None else f"paused_apps.{app_field_name(app_id)}"
        reason = f"{field}.reason" if app_id is None else f"{field}.pause.reason"
        resumed = "resumed_at" if app_id is None else f"resumed_apps.{app_field_name(app_id)}"
        change: list[Mapping[str, Any]] = [{"$unset": field}, {"$set": {resumed: "$$NOW"}}]
        return (await self.triggers.update_one({"_id": id_, reason: "budget"}, change)).modified_count == 1

    async def find_budget_pauses(self) -> Set[tuple[str, str | None]]:
        """Returns the paused triggers by id and app; None is all apps."""
        whole = self.triggers.find({"paused.reason": "budget"}, {"_id": 1})
        found: set[tuple[str, str | None]] = {(document["_id"], None) async for document in whole}
        by_app = self.triggers.find({"type": {"$gt": ""}, "paused_apps": {"$exists": True}}, {"paused_apps": 1})
        async for document in by_app:
            pauses = document["paused_apps"].values()
            by_budget = [entry for entry in pauses if entry["pause"].get("reason") == "budget"]
            found |= {(document["_id"], entry["app_id"]) for entry in by_budget}
        return found

    async def resume(self, trigger: Trigger, *, app_id: str | None = None) -> bool:
        """Returns False when it was not paused.

        Without `app_id`, the pauses of single apps end too.

        The time is stored: a schedule fires no time before it, and earlier failures no longer count.
        """
        names = ["paused", "paused_apps"] if app_id is None else [f"paused_apps.{app_field_name(app_id)}"]
        resumed = "resumed_at" if app_id is None else f"resumed_apps.{app_field_name(app_id)}"
        was_paused = {"_id": trigger.id, "$or": [{name: {"$nin": [None, {}]}} for name in names]}
        # By the store's clock, since the caller's may be off.
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
        """Adds the counts and notes since the last write, and keeps the newest notes."""
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
        """Creates the document of a package's trigger if needed.

        A removed trigger stays removed.
        """
        is_of_package = trigger.app_id is None
        if is_of_package:
            first = {name: value for name, value in _identity_fields(trigger).items() if name != "_id"}
            change = {**change, "$setOnInsert": first}
        update = pipeline_with_notes(change, notes) if notes else change
        await self.triggers.update_one({"_id": trigger.id}, update, upsert=is_of_package)


def runtime_query(
    *,
    kind: str | None = None,
    app_id: str | None = None,
    workflow: str | None = None,
    only_paused: bool = False,
    after: str = "",
) -> dict[str, Any]:
    """Selects triggers created at run time.

    Sorted by id, an index answers it: of app, kind or id.
    """
    within = {"$gt": after}
    if workflow is not None:
        within = {"$gt": max(after, f"{workflow}/"), "$lt": f"{workflow}{_AFTER_SLASH}"}
    query: dict[str, Any] = {"_id": within, "spec.type": {"$exists": True} if kind is None else kind}
    if app_id is not None:
        query["app_id"] = app_id
    if only_paused:
        query["paused.at"] = {"$exists": True}
    return query


def _identity_fields(trigger: Trigger) -> dict[str, Any]:
    return {
        "_id": trigger.id,
        "workflow": trigger.workflow,
        "name": trigger.spec.name,
        "type": trigger.spec.type,
        "app_id": trigger.app_id,
    }
