"""Idempotency keys: one run per key and body; another body is an error.

The key's record is written first, with the fingerprint of its body. The run's dedupe key contains both, so that the
store keeps one run of concurrent calls, and of a retry after a crash in between. Two apps may use the same key.
"""

import asyncio
import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from pydantic import Field
from pymongo import ASCENDING
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import DuplicateKeyError, WTimeoutError

from triggers.api.field_types import with_error
from triggers.gateway.http_problems import ProblemError

RETENTION = timedelta(days=7)
MAX_KEY_LENGTH = 255
_MAX_TRIES = 50
_RETRY_INTERVAL_S = 0.1
IdempotencyKeyText = Annotated[
    str,
    Field(max_length=MAX_KEY_LENGTH, pattern=r"^[!-~]([ -~]*[!-~])?$"),
    with_error(f"must be 1 to {MAX_KEY_LENGTH} printable ASCII characters, without a space at either end"),
]


class IdempotencyKeys:
    def __init__(self, database: AsyncDatabase[dict[str, Any]]) -> None:
        self._keys = database["idempotency_keys"]
        self._has_index = False

    async def event_id(self, key: str, app_id: str, body: Mapping[str, Any]) -> str:
        """Returns the run's event id.

        Raises 409 for a key that was used with another body.
        """
        await self._ensure_index()
        fingerprint = _digest(json.dumps(body, sort_keys=True, default=str))
        id_ = _digest(json.dumps([app_id, key]))
        if await self._register_fingerprint(id_, fingerprint) != fingerprint:
            raise _key_reused_problem()
        return f"key:{id_}:{fingerprint[:16]}"

    async def _register_fingerprint(self, id_: str, fingerprint: str) -> str:
        """Returns the fingerprint of the first body with this key."""
        for _ in range(_MAX_TRIES):
            try:
                await self._keys.insert_one({"_id": id_, "fingerprint": fingerprint, "created_at": datetime.now(UTC)})
                return fingerprint
            except DuplicateKeyError:
                first = await self._keys.find_one({"_id": id_}, {"fingerprint": 1})
            if first is not None:
                return str(first["fingerprint"])
            # Not on a majority yet, or expired in between.
            await asyncio.sleep(_RETRY_INTERVAL_S)
        raise WTimeoutError("the first use of this key is not on a majority yet")

    async def _ensure_index(self) -> None:
        if not self._has_index:
            retention_s = int(RETENTION.total_seconds())
            await self._keys.create_index([("created_at", ASCENDING)], name="by_age", expireAfterSeconds=retention_s)
            self._has_index = True


def unquote_key(key: str) -> str:
    """Removes the quotes of the IETF draft, which most clients leave out."""
    return key[1:-1] if len(key) > 2 and key[0] == key[-1] == '"' else key


def _key_reused_problem() -> ProblemError:
    """Builds a 409. The draft has 422, which is used here for invalid bodies only."""
    detail = "Idempotency-Key: this key was used with another body; send a new key for a new run"
    return ProblemError(409, detail, members={"errors": {"Idempotency-Key": "was used with another body"}})


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:48]
