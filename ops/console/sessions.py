"""Sessions of the console: a random token in a cookie, stored as a hash, bound to an API key."""

import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from pymongo import ASCENDING
from pymongo.asynchronous.database import AsyncDatabase

COLLECTION = "console_sessions"
SESSION_LIFETIME = timedelta(hours=12)
ACTIONS_LIFETIME = timedelta(minutes=15)
MAX_USED_ACTIONS = 200
MAX_NOTICE_CHARACTERS = 1_000
_RANDOM_BYTES = 32
_TOKEN_PATTERN = re.compile(r"[A-Za-z0-9_-]{43}")  # 32 bytes in unpadded base64


@dataclass(frozen=True, slots=True)
class Session:
    """`notice` is the result of the last action, shown once."""

    token: str = field(repr=False)
    key_hash: str = field(repr=False)
    actions_until: datetime | None = None
    notice: str | None = None

    @property
    def form_token(self) -> str:
        """Return the token of each form, derived from the cookie so that it is valid in this session only."""
        return hmac.digest(self.token.encode(), b"forms of the console", "sha256").hex()

    def is_own_form(self, form_token: str) -> bool:
        return hmac.compare_digest(self.form_token.encode(), form_token.encode("utf-8", "replace"))

    def can_act(self, now: datetime) -> bool:
        return self.actions_until is not None and now < self.actions_until


class Sessions:
    def __init__(self, database: AsyncDatabase[dict[str, Any]]) -> None:
        self._sessions = database[COLLECTION]

    async def begin(self, key_hash: str) -> Session:
        await self._sessions.create_index([("expires_at", ASCENDING)], name="until_expired", expireAfterSeconds=0)
        session = Session(secrets.token_urlsafe(_RANDOM_BYTES), key_hash)
        now = datetime.now(UTC)
        document = {
            "_id": _token_hash(session.token),
            "key_hash": key_hash,
            "created_at": now,
            "expires_at": now + SESSION_LIFETIME,
        }
        await self._sessions.insert_one(document)
        return session

    async def find(self, token: str) -> Session | None:
        """Filter expired sessions, which MongoDB deletes up to a minute late."""
        if _TOKEN_PATTERN.fullmatch(token) is None:
            return None
        found = await self._sessions.find_one(
            {"_id": _token_hash(token), "expires_at": {"$gt": datetime.now(UTC)}}, {"used": 0}
        )
        return None if found is None else _to_session(token, found)

    async def end(self, session: Session) -> None:
        await self._sessions.delete_one({"_id": _token_hash(session.token)})

    async def allow_actions(self, session: Session) -> None:
        await self._set(session, {"actions_until": datetime.now(UTC) + ACTIONS_LIFETIME})

    async def end_actions(self, session: Session) -> None:
        await self._set(session, {"actions_until": None})

    async def set_notice(self, session: Session, notice: str) -> None:
        await self._set(session, {"notice": notice[:MAX_NOTICE_CHARACTERS]})

    async def clear_notice(self, session: Session) -> None:
        await self._set(session, {"notice": None})

    async def claim_action(self, session: Session, action_id: str) -> bool:
        """Record an action; return False for a repeated one, such as a second click."""
        unused = {"_id": _token_hash(session.token), "used": {"$ne": action_id}}
        record = {"$push": {"used": {"$each": [action_id], "$slice": -MAX_USED_ACTIONS}}}
        return (await self._sessions.update_one(unused, record)).matched_count == 1

    async def _set(self, session: Session, change: Mapping[str, Any]) -> None:
        await self._sessions.update_one({"_id": _token_hash(session.token)}, {"$set": dict(change)})


def new_action_id() -> str:
    """Return an id for a confirmation page, so that its action is executed once."""
    return secrets.token_urlsafe(16)


def _token_hash(token: str) -> str:
    return hashlib.sha256(token.encode("ascii")).hexdigest()


def _to_session(token: str, document: Mapping[str, Any]) -> Session:
    return Session(token, document["key_hash"], document.get("actions_until"), document.get("notice"))
