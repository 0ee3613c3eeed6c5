"""API keys: shown once, stored as a hash, for one app or all."""

import hashlib
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from pymongo import ASCENDING
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.write_concern import WriteConcern
from ulid import ULID

from workers.store.rate import Rate

KEY_PREFIX = "ua_"
_RANDOM_BYTES = 32
_PLAINTEXT = re.compile(rf"{KEY_PREFIX}[A-Za-z0-9_-]{{43}}")  # 32 bytes in unpadded base64

DEFAULT_RATE = Rate(100, 1)
_RATE = re.compile(r"([1-9][0-9]{0,5})/([smh])")
_RATE_SECONDS = {"s": 1, "m": 60, "h": 3600}

Access = Literal["read", "write"]
Right = Literal["approve"]
# The hint in errors for a key that lacks the right.
HOW_TO_APPROVE = "`unattended keys create NAME --may approve` makes a key that may, with `--app APP` for one app"


@dataclass(frozen=True, slots=True)
class ApiKey:
    id: str
    name: str
    app_id: str | None  # None: all apps
    created_at: datetime
    revoked_at: datetime | None = None
    access: Access = "write"
    rate: Rate = DEFAULT_RATE
    expires_at: datetime | None = None
    last_used_at: datetime | None = None  # to the minute
    may: tuple[Right, ...] = ()  # beyond reading and writing

    def is_valid(self, at: datetime) -> bool:
        return self.revoked_at is None and (self.expires_at is None or at < self.expires_at)

    @property
    def may_approve(self) -> bool:
        """Allows to answer and discard waiting runs, and to set `ui_responses`."""
        return self.access == "write" and "approve" in self.may

    @property
    def burst(self) -> int:
        """Calls allowed at once: those of two seconds, or of one unit of a slower rate."""
        return self.rate.count * 2 if self.rate.seconds == 1 else self.rate.count


class ApiKeys:
    def __init__(self, database: AsyncDatabase[dict[str, Any]]) -> None:
        self._keys = database["api_keys"]

    async def create(
        self,
        name: str,
        app_id: str | None,
        *,
        access: Access = "write",
        rate: Rate = DEFAULT_RATE,
        expires_at: datetime | None = None,
        may: Sequence[Right] = (),
    ) -> str:
        """Returns the key in clear text, which is stored nowhere."""
        await self._keys.create_index([("hash", ASCENDING)], name="one_key_per_hash", unique=True)
        plaintext = KEY_PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)
        document = {
            "_id": f"key_{ULID()}",
            "name": name,
            "app_id": app_id,
            "hash": hash_key(plaintext),
            "created_at": datetime.now(UTC),
            "revoked_at": None,
            "access": access,
            "rate": {"count": rate.count, "seconds": rate.seconds},
            "expires_at": expires_at,
            "last_used_at": None,
            "may": list(may),
        }
        await self._keys.insert_one(document)
        return plaintext

    async def list(self) -> Sequence[ApiKey]:
        documents = await self._keys.find({}, {"hash": 0}).sort("_id", ASCENDING).to_list(None)
        return [_read_api_key(document) for document in documents]

    async def revoke(self, key_id: str) -> bool:
        """Returns False for an unknown key or one already revoked.

        The record stays for later audits.
        """
        change = {"$set": {"revoked_at": datetime.now(UTC)}}
        result = await self._keys.update_one({"_id": key_id, "revoked_at": None}, change)
        return result.modified_count == 1

    async def verify(self, plaintext: str) -> ApiKey | None:
        return await self.find(hash_key(plaintext)) if has_key_format(plaintext) else None

    async def find(self, hash_: str) -> ApiKey | None:
        """Finds a key that is neither revoked nor expired."""
        document = await self._keys.find_one({"hash": hash_, "revoked_at": None}, {"hash": 0})
        found = None if document is None else _read_api_key(document)
        return found if found is not None and found.is_valid(datetime.now(UTC)) else None

    async def note_use(self, key_id: str, at: datetime) -> None:
        """Writes with w=1: nothing depends on this time."""
        keys = self._keys.with_options(write_concern=WriteConcern(w=1))
        await keys.update_one({"_id": key_id}, {"$max": {"last_used_at": at}})


def has_key_format(plaintext: str) -> bool:
    return _PLAINTEXT.fullmatch(plaintext) is not None


def parse_rate(text: str) -> Rate:
    """Parses `100/s`, `600/m` or `5000/h`."""
    match = _RATE.fullmatch(text.strip())
    if match is None:
        raise ValueError("write a rate such as 100/s, 600/m or 5000/h")
    return Rate(int(match[1]), _RATE_SECONDS[match[2]])


def format_rate(rate: Rate) -> str:
    units = {seconds: unit for unit, seconds in _RATE_SECONDS.items()}
    return f"{rate.count}/{units[rate.seconds]}"


def hash_key(plaintext: str) -> str:
    """Hashes with plain SHA-256, without salt.

    Salts and slow hashes protect passwords that people choose. A key is 256 random bits, which cannot be enumerated:
    a slow hash would only delay each request, and a salt would prevent the lookup by hash.
    """
    return hashlib.sha256(plaintext.encode("ascii")).hexdigest()


def _read_api_key(document: Mapping[str, Any]) -> ApiKey:
    rate = document.get("rate")
    return ApiKey(
        id=document["_id"],
        name=document["name"],
        app_id=document["app_id"],
        created_at=document["created_at"],
        revoked_at=document["revoked_at"],
        access=document.get("access", "write"),
        rate=DEFAULT_RATE if rate is None else Rate(rate["count"], rate["seconds"]),
        expires_at=document.get("expires_at"),
        last_used_at=document.get("last_used_at"),
        may=tuple(document.get("may") or ()),  # keys of older versions have no `may`
    )
