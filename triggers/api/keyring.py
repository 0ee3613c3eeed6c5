"""The keyring: authenticates API keys with at most one query per key and second.

Results are cached for a second, so a revoked key is refused soon after. Lookups of keys that were not valid recently
share one rate limit. Text that cannot be a key is refused without a lookup: otherwise one caller could use up the
limit for all keys that this process has not seen yet.
"""

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from pymongo.errors import PyMongoError

from triggers.api.caller_access import unauthorized_problem
from triggers.api_keys import ApiKey, ApiKeys, has_key_format, hash_key
from triggers.bounded_cache import BoundedCache
from triggers.gateway.http_problems import ProblemError
from triggers.token_bucket import TokenBuckets, TokenRate

log = logging.getLogger(__name__)

CACHE_TTL_S = 1.0
RECENTLY_VALID_S = 3600.0
MAX_CACHED = 10_000
UNKNOWN_KEYS_PER_S = 200  # a light load for the store; valid keys may be among them
UNKNOWN_KEYS_BURST = 1_000
UNKNOWN_KEYS_RATE = TokenRate(UNKNOWN_KEYS_PER_S, UNKNOWN_KEYS_BURST)
LAST_USED_INTERVAL = timedelta(minutes=1)


class Keyring:
    def __init__(
        self,
        keys: ApiKeys,
        *,
        clock: Callable[[], float] = time.monotonic,
        unknown_keys: TokenRate = UNKNOWN_KEYS_RATE,
    ) -> None:
        self._keys = keys
        self._clock = clock
        self._unknown_keys = TokenBuckets(clock=clock)
        self._unknown_keys_rate = unknown_keys
        self._cache: BoundedCache[tuple[float, ApiKey | None]] = BoundedCache(MAX_CACHED)
        self._valid_at: BoundedCache[float] = BoundedCache(MAX_CACHED)
        self._noted_at: BoundedCache[datetime] = BoundedCache(MAX_CACHED)

    async def authenticate(self, plaintext: str) -> ApiKey:
        """Raises 401, or 429 after too many calls with unknown keys."""
        if not has_key_format(plaintext):
            raise unauthorized_problem()
        return await self.authenticate_hash(hash_key(plaintext))

    async def authenticate_hash(self, hash_: str) -> ApiKey:
        """Authenticates a session, which stores only the hash of its key."""
        key, now = await self._look_up(hash_), datetime.now(UTC)
        if key is None or not key.is_valid(now):
            raise unauthorized_problem()
        await self._note_use(key, now)
        return key

    async def _look_up(self, hash_: str) -> ApiKey | None:
        now = self._clock()
        read_at, key = self._cache.get(hash_) or (float("-inf"), None)
        if now - read_at < CACHE_TTL_S:
            return key
        valid_at = self._valid_at.get(hash_)
        if valid_at is None or now - valid_at >= RECENTLY_VALID_S:
            rate = self._unknown_keys_rate
            decision = self._unknown_keys.try_acquire("all", per_s=rate.per_s, burst=rate.burst)
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
        except PyMongoError as error:  # the call itself may still succeed
            log.warning("key_use_not_noted", extra={"key": key.id, "error": type(error).__name__})


def _too_many_unknown_keys(wait_s: float) -> ProblemError:
    detail = "too many calls without a valid key; try again"
    return ProblemError(429, detail, headers={"retry-after": str(max(round(wait_s), 1))})
