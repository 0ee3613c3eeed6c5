"""Context documents: what database variables read, and write-backs write, in MongoDB; for one app, whatever the query.

Writes are in one transaction with the step of the run that owes them: all or nothing, by the owner of the run only, and
once, even if a turn is repeated.

Each heartbeat writes to the run. A heartbeat between the beginning of a transaction and its last step undoes all of it,
and the driver begins again: a transaction longer than the interval between two beats would never finish. So the
documents must be found within a part of that interval. Otherwise the run fails one attempt, instead of many.
"""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from bson import ObjectId
from bson.codec_options import CodecOptions, DatetimeConversion
from bson.errors import BSONError
from pymongo import DESCENDING, AsyncMongoClient
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.errors import DuplicateKeyError, ExecutionTimeout, InvalidName, OperationFailure
from pymongo.read_concern import ReadConcern
from pymongo.write_concern import WriteConcern

from accounting.infra.store_errors import is_unavailable
from workers.crash_points import crash_point
from workers.store.reserved_collections import refusal_reason
from workers.store.storable import NotStorableError, check_storable
from workflows.context.documents.document_access import (
    DocumentRead,
    DocumentTarget,
    DocumentWrite,
    ReadRefusedError,
    WriteRefusedError,
    WriteTooSlowError,
)
from workflows.context.documents.query_templates import (
    TENANT_NAMES,
    find_server_code,
    id_condition,
    owner_scope,
    tenant_scope,
)
from workflows.context.values.size_limits import TooLargeError, to_plain_json
from workflows.context.values.value_types import is_same_value

# Below the caller's deadline of 10 s, so that the server does not go on with an abandoned query.
MAX_READ_MS = 9_000
# Half of the interval between two heartbeats of a lease of 30 s.
FIND_TIMEOUT_S = 2.5
# Longer than the server locks the writes of a dead worker, and shorter than the retries of the driver.
WRITE_TIMEOUT_S = 90.0
WRITE_CONFLICT = 112
MAX_SHOWN = 100

# A year beyond Python's calendar fails that value, not the whole read.
_LENIENT: CodecOptions[dict[str, Any]] = CodecOptions(
    tz_aware=True, datetime_conversion=DatetimeConversion.DATETIME_AUTO
)
# Values that the client cannot send: odd names, numbers beyond 64 bits, lone surrogates.
_UNSENDABLE = (InvalidName, BSONError, OverflowError, UnicodeError)


class KeyTakenError(WriteRefusedError):
    """A unique index has the value already.

    It belongs to a document that this app does not own, or to one that was inserted just now.
    """


class ContextDocuments:
    def __init__(
        self,
        client: AsyncMongoClient[dict[str, Any]],
        *,
        own_database: str,
        find_timeout_s: float = FIND_TIMEOUT_S,
        write_timeout_s: float = WRITE_TIMEOUT_S,
        max_read_ms: int = MAX_READ_MS,
    ) -> None:
        """`find_timeout_s`: the time limit for finding all documents of one transaction."""
        self._client = client
        self._own_database = own_database
        self._find_timeout_s = find_timeout_s
        self._write_timeout_s = write_timeout_s
        self._max_read_ms = max_read_ms

    async def read(self, request: DocumentRead) -> Mapping[str, Any] | None:
        """Reads the newest matching document, projected on the server.

        Raises TimeoutError if the server needs too long.
        """
        why = refusal_reason(request.database, request.collection, own_database=self._own_database)
        if why is not None:
            raise ReadRefusedError(why)
        if operator := find_server_code(request.query):
            raise ReadRefusedError(f"{operator} runs code on the database server, which no query may")
        query = {"$and": [dict(request.query), tenant_scope(request.app_id)]}
        projection = {"_id": "_id" in request.fields, **dict.fromkeys(request.fields, True)}
        try:
            found = self._client[request.database].get_collection(request.collection, codec_options=_LENIENT)
            return await found.find_one(query, projection, sort=[("_id", DESCENDING)], max_time_ms=self._max_read_ms)
        except ExecutionTimeout:
            raise TimeoutError from None
        except _UNSENDABLE as error:
            raise ReadRefusedError(str(error)) from None
        except OperationFailure as error:
            if is_unavailable(error):
                raise
            raise ReadRefusedError(_error_text(error)) from None

    async def check_writable(self, place: DocumentTarget) -> None:
        """Checks that a write could change the document that is meant.

        Raises WriteRefusedError for a document without an owner, or, by its `_id`, of another app. By another key a
        missing document is one to insert. Raises WriteTooSlowError if the document is not found within the time limit
        of a write.
        """
        own_write = DocumentWrite(**asdict(place), values={})
        self._check(own_write)
        found_by = time.monotonic() + self._find_timeout_s
        key = {place.key: _key_condition(place)}
        if await self._exists(own_write, {"$and": [key, owner_scope(place.app_id)]}, deadline=found_by):
            return
        which = f"{place.variable} {str(place.key_value)[:MAX_SHOWN]}"
        where = f"{place.database}.{place.collection}"
        if await self._exists(own_write, {"$and": [key, tenant_scope(place.app_id)]}, deadline=found_by):
            raise WriteRefusedError(
                f"{which} has no `app_id`, so it is read-only here: every app may read it. Write the `app_id` of the "
                f"app whose it is into the document in {where}, or leave write_strategy out"
            )
        if place.key == "_id":
            raise WriteRefusedError(
                f"{which} cannot be written back: app {place.app_id} has no document with this _id in {where}. Let "
                "the trigger send the _id of one that is there and has this `app_id`"
            )

    async def _exists(self, write: DocumentWrite, query: Mapping[str, Any], *, deadline: float) -> bool:
        try:
            collection = self._client[write.database][write.collection]
            return await collection.find_one(query, {"_id": 1}, max_time_ms=_left_ms(deadline)) is not None
        except ExecutionTimeout:
            raise self._too_slow_error(write) from None
        except _UNSENDABLE as error:
            raise write.refused_error(str(error)) from None
        except OperationFailure as error:
            if is_unavailable(error):
                raise
            raise write.refused_error(_error_text(error)) from None

    def _too_slow_error(self, write: DocumentWrite) -> WriteTooSlowError:
        why = f"to find its {write.key} took longer than {self._find_timeout_s:.2g} s"
        return write.too_slow_error(f"{why}; the collection needs an index on it")

    async def write_with(
        self, step: Callable[[AsyncClientSession], Awaitable[None]], writes: Sequence[DocumentWrite]
    ) -> None:
        """Makes the step of the run and all writes in one transaction.

        The driver repeats conflicting transactions for a while. After that, or if documents are not found in time,
        raises WriteTooSlowError.
        """
        for write in writes:
            self._check(write)
        give_up_at = time.monotonic() + self._write_timeout_s

        async def all_of_it(session: AsyncClientSession) -> None:
            found_by = time.monotonic() + self._find_timeout_s
            try:
                for write in writes:
                    await self._write_document(write, session, deadline=found_by)
                # The run is last: if the worker is killed here, its writes stay locked until the server ends the
                # transaction, after 60 s by default, and a locked run cannot be reclaimed.
                await step(session)
            except OperationFailure as error:
                if error.code == WRITE_CONFLICT and writes and time.monotonic() > give_up_at:
                    why = f"for {self._write_timeout_s:g} s others wrote the same documents whenever it was tried"
                    raise writes[0].too_slow_error(why) from None
                raise
            crash_point("documents written")

        try:
            await self._in_transaction(all_of_it)
        except KeyTakenError:
            # Two runs of an app may insert the same key at once. The repeat finds it, unless another app owns it.
            await self._in_transaction(all_of_it)

    def _check(self, write: DocumentWrite) -> None:
        why = refusal_reason(write.database, write.collection, own_database=self._own_database)
        if why is not None:
            raise write.refused_error(why)
        try:
            check_storable(write.values, path=write.variable)
        except NotStorableError as error:
            raise write.refused_error(str(error)) from None

    async def _in_transaction(self, work: Callable[[AsyncClientSession], Awaitable[None]]) -> None:
        async with self._client.start_session() as session:
            await session.with_transaction(
                work, read_concern=ReadConcern("snapshot"), write_concern=WriteConcern("majority", wtimeout=10_000)
            )

    async def _write_document(self, write: DocumentWrite, session: AsyncClientSession, *, deadline: float) -> None:
        try:
            collection = self._client[write.database].get_collection(write.collection, codec_options=_LENIENT)
            own, newest = _own_document(write), [("_id", DESCENDING)]  # the same document that a read finds
            found = await collection.find_one(
                own,
                dict.fromkeys(write.values, True),
                sort=newest,
                session=session,
                max_time_ms=_left_ms(deadline),
            )
            if found is None:
                await collection.update_one(_new_document_query(write), _insertion(write), upsert=True, session=session)
            elif changed := {name: value for name, value in write.values.items() if _differs(found, name, value)}:
                await collection.update_one({"_id": found["_id"]}, {"$set": changed}, session=session)
        except DuplicateKeyError:
            # Not the server's text, which quotes values in the index.
            why = "a unique index of the collection holds one of its values already, for another document"
            raise KeyTakenError(str(write.refused_error(why))) from None
        except ExecutionTimeout:
            raise self._too_slow_error(write) from None
        except _UNSENDABLE as error:
            raise write.refused_error(str(error)) from None
        except OperationFailure as error:
            if is_unavailable(error):
                raise
            raise write.refused_error(_error_text(error)) from None


def _left_ms(deadline: float) -> int:
    return max(int((deadline - time.monotonic()) * 1000), 1)


def _own_document(write: DocumentWrite) -> dict[str, Any]:
    return {"$and": [{write.key: _key_condition(write)}, owner_scope(write.app_id)]}


def _key_condition(place: DocumentTarget | DocumentWrite) -> Any:
    may_be_object_id = place.key == "_id" or place.key in TENANT_NAMES
    return id_condition(place.key_value) if may_be_object_id else place.key_value


def _new_document_query(write: DocumentWrite) -> dict[str, Any]:
    """Returns a query that matches no document, as the snapshot has none.

    An upsert by the key alone would scan the collection once more.
    """
    if write.key in TENANT_NAMES:
        return {"_id": ObjectId()}
    return _own_document(write) if write.key == "_id" else {"_id": ObjectId(), write.key: write.key_value}


def _differs(document: Mapping[str, Any], name: str, value: Any) -> bool:
    """Returns whether the value was changed since the context read it.

    A date or an id that was read as text and left alone is unchanged.
    """
    try:
        return name not in document or not is_same_value(to_plain_json(document[name]), value)
    except TooLargeError:
        return True


def _insertion(write: DocumentWrite) -> dict[str, Any]:
    owner = {} if write.key in TENANT_NAMES else {"app_id": write.app_id}
    return {"$set": dict(write.values), "$setOnInsert": {write.key: write.key_value, **owner}}


def _error_text(error: OperationFailure) -> str:
    text = str(error.details.get("errmsg") if error.details else error)
    # "not authorized on shop to execute command {...}" continues with the whole command.
    return text.partition(" to execute command")[0][:300]
