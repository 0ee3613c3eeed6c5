"""Lease renewals: the reads and writes of a heartbeat, from its own thread over its own client."""

from collections.abc import Sequence
from typing import Any

from pymongo import MongoClient, UpdateOne
from pymongo.client_session import ClientSession
from pymongo.errors import OperationFailure
from pymongo.write_concern import WriteConcern

from workers.store.context_documents import WRITE_CONFLICT
from workers.store.fencing_token import lease_extension, owned_query
from workers.store.run import Claim


class LeaseRenewals:
    def __init__(self, *, url: str, database: str, lease_s: int, timeout_ms: int) -> None:
        self._lease_s = lease_s
        self._client: MongoClient[dict[str, Any]] = MongoClient(
            url,
            readPreference="primary",  # a secondary may show the owner before our claim: it looks like a takeover
            serverSelectionTimeoutMS=timeout_ms,
            connectTimeoutMS=timeout_ms,
            socketTimeoutMS=timeout_ms,
            retryWrites=False,  # the next beat retries
            appname="unattended-heartbeat",
        )
        # Overrides the URL and the server's default: an old primary without followers must not confirm a renewal.
        self._majority = WriteConcern(w="majority", j=True, wtimeout=timeout_ms)
        self._runs = self._client[database].get_collection("runs", write_concern=self._majority)

    def close(self) -> None:
        self._client.close()

    def extend(self, claims: Sequence[Claim], *, session: ClientSession | None = None) -> int:
        """Renews the leases that are still held under these claims; returns how many."""
        until = [{"$set": {"lease.until": lease_extension(self._lease_s)}}]
        return self._runs.bulk_write(
            [UpdateOne(owned_query(claim), until) for claim in claims], ordered=False, session=session
        ).matched_count

    def extend_unless_locked(self, claims: Sequence[Claim]) -> int | None:
        """Does the same in a transaction. Returns None if another transaction has locked one of the runs.

        A write in a transaction fails at once on such a run; any other write waits for its lock.
        """
        with self._client.start_session() as session:
            try:
                with session.start_transaction(write_concern=self._majority):
                    return self.extend(claims, session=session)
            except OperationFailure as error:
                if error.code != WRITE_CONFLICT:
                    raise
                return None

    def owners(self, run_ids: Sequence[str]) -> dict[str, tuple[int, str]]:
        """Returns the newest token and the state of each run that exists."""
        found = self._runs.find({"_id": {"$in": list(run_ids)}}, {"lease.token": 1, "state": 1})
        return {document["_id"]: (document["lease"]["token"], document["state"]) for document in found}

    def cancel_requests(self, run_ids: Sequence[str]) -> dict[tuple[str, int], str]:
        """Returns the requesters of cancellations, by run and newest token."""
        query = {"_id": {"$in": list(run_ids)}, "cancel_requested": {"$type": "object"}}
        found = self._runs.find(query, {"lease.token": 1, "cancel_requested": 1})
        return {(run["_id"], run["lease"]["token"]): run["cancel_requested"]["by"] for run in found}
