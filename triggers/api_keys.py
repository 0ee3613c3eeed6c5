"""API keys: made once, shown once, kept as a hash, scoped to one app or to all."""

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pymongo import ASCENDING
from pymongo.asynchronous.database import AsyncDatabase
from ulid import ULID

PREFIX = "ua_"
_RANDOM_BYTES = 32
_LENGTH = len(PREFIX) + 43  # 32 bytes in unpadded base64


@dataclass(frozen=True, slots=True)
class ApiKey:
    id: str
    name: str
    app_id: str | None  # None: every app
    created_at: datetime
    revoked_at: datetime | None = None


class ApiKeys:
    def __init__(self, database: AsyncDatabase[dict[str, Any]]) -> None:
        self._keys = database["api_keys"]

    async def create(self, name: str, app_id: str | None) -> str:
        """The key in clear text, for the only time."""
        await self._keys.create_index([("hash", ASCENDING)], name="one_key_per_hash", unique=True)
        plaintext = PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)
        document = {
            "_id": f"key_{ULID()}",
            "name": name,
            "app_id": app_id,
            "hash": _hash(plaintext),
            "created_at": datetime.now(UTC),
            "revoked_at": None,
        }
        await self._keys.insert_one(document)
        return plaintext

    async def list(self) -> Sequence[ApiKey]:
        documents = await self._keys.find({}, {"hash": 0}).sort("_id", ASCENDING).to_list(None)
        return [_api_key(document) for document in documents]

    async def revoke(self, key_id: str) -> bool:
        """False when there is no such key, or it was revoked before. The record stays, for whoever asks later."""
        change = {"$set": {"revoked_at": datetime.now(UTC)}}
        result = await self._keys.update_one({"_id": key_id, "revoked_at": None}, change)
        return result.modified_count == 1

    async def verify(self, plaintext: str) -> ApiKey | None:
        if not (plaintext.startswith(PREFIX) and len(plaintext) == _LENGTH and plaintext.isascii()):
            return None
        document = await self._keys.find_one({"hash": _hash(plaintext), "revoked_at": None}, {"hash": 0})
        return None if document is None else _api_key(document)


def _hash(plaintext: str) -> str:
    """Plain SHA-256, no salt and no slow hash: those protect secrets that people choose and can be guessed.

    This one is 256 random bits, which nobody enumerates; a slow hash would only cost every request its time,
    and a salt would forbid the lookup by hash.
    """
    return hashlib.sha256(plaintext.encode("ascii")).hexdigest()


def _api_key(document: Mapping[str, Any]) -> ApiKey:
    return ApiKey(
        id=document["_id"],
        name=document["name"],
        app_id=document["app_id"],
        created_at=document["created_at"],
        revoked_at=document["revoked_at"],
    )
