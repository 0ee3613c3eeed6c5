"""The keyring: which key a caller has, asked of the store at most once a second, and not at all by those who guess.

What the store said is remembered for a second, so that a revoked key is refused soon after. Looking up a key that was
not good lately uses up an allowance that all such callers share; what cannot be a key costs nothing, and takes nothing
from it: one caller with a wrong word would otherwise keep everybody out whose key this process has not seen yet.
"""

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from pymongo.errors import PyMongoError

from triggers.api.access import unauthorized_problem
from triggers.api_keys import ApiKey, ApiKeys, has_key_format, hash_key
from triggers.bounded_cache import BoundedCache
from triggers.gateway.http_problems import ProblemError
from triggers.token_bucket import TokenBuckets

log = logging.getLogger(__name__)

CACHE_TTL_S = 1.0
RECENTLY_VALID_S = 3600.0
MAX_CACHED = 10_000
UNKNOWN_KEYS_PER_S = 200  # the store hardly feels them, and keys that are good may be among them
UNKNOWN_KEYS_BURST = 1_000
LAST_USED_INTERVAL = timedelta(minutes=1)


class Keyring:
    def __init__(self, keys: ApiKeys, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._keys = keys
        self._clock = clock
        self._unknown_keys = TokenBuckets(clock=clock)
        self._cache: BoundedCache[tuple[float, ApiKey | None]] = BoundedCache(MAX_CACHED)
        self._valid_at: BoundedCache[float] = BoundedCache(MAX_CACHED)
        self._noted_at: BoundedCache[datetime] = BoundedCache(MAX_CACHED)

    async def authenticate(self, plaintext: str) -> ApiKey:
        """Raises 401, or 429 where too many strangers have tried."""
        if not has_key_format(plaintext):
            raise unauthorized_problem()
        return await self.authenticate_hash(hash_key(plaintext))

    async def authenticate_hash(self, hash_: str) -> ApiKey:
        """The same for who was let in with that key before, and keeps nothing but its hash."""
        found, now = await self._look_up(hash_), datetime.now(UTC)
        if found is None or not found.is_valid(now):
            raise unauthorized_problem()
        await self._note_use(found, now)
        return found

    async def _look_up(self, hash_: str) -> ApiKey | None:
        now = self._clock()
        read_at, key = self._cache.get(hash_) or (float("-inf"), None)
        if now - read_at < CACHE_TTL_S:
            return key
        valid_at = self._valid_at.get(hash_)
        if valid_at is None or now - valid_at >= RECENTLY_VALID_S:
            decision = self._unknown_keys.try_acquire("all", per_s=UNKNOWN_KEYS_PER_S, burst=UNKNOWN_KEYS_BURST)
            if not decision.is_allowed:
                raise _too_many_unknown_keys(decision.wait_s)
        key = await self._keys.find(hash_)
        self._cache.put(hash_, (now, key))
        if key is None:
            self._valid_at.remove(hash_)
        else:
            self._valid_at.put(hash_, now)
        return key

    async def _note_use(self, key: ApiKey, now: datetime) -> None:
        noted_at = max(filter(None, (self._noted_at.get(key.id), key.last_used_at)), default=None)
        if noted_at is not None and now - noted_at < LAST_USED_INTERVAL:
            return
        self._noted_at.put(key.id, now)
        try:
            await self._keys.note_use(key.id, now)
        except PyMongoError as error:  # the call itself may still be answered
            log.warning("key_use_not_noted", extra={"key": key.id, "error": type(error).__name__})


def _too_many_unknown_keys(wait_s: float) -> ProblemError:
    said = "too many calls without a valid key; try again"
    return ProblemError(429, said, headers={"retry-after": str(max(round(wait_s), 1))})
