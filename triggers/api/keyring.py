"""The keyring: which key a caller has, asked of the store at most once a second, and not at all by those who guess.

What the store said is remembered for a second, so that a revoked key is refused soon after. Looking up a key that was
not good lately uses up an allowance that all such callers share; what cannot be a key costs nothing, and takes nothing
from it: one caller with a wrong word would otherwise keep everybody out whose key this process has not seen yet.
"""

import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Protocol, TypeVar

from pymongo.errors import PyMongoError

from triggers.api.access import unauthorized
from triggers.api_keys import ApiKey, hash_of, looks_like_a_key
from triggers.gateway.problems import ProblemError
from triggers.token_bucket import TokenBuckets

log = logging.getLogger(__name__)

REMEMBERED_S = 1.0
GOOD_LATELY_S = 3600.0
MOST_REMEMBERED = 10_000
STRANGERS_PER_S = 200  # the store hardly feels them, and keys that are good may be among them
STRANGERS_BURST = 1_000
USE_NOTED_EVERY = timedelta(minutes=1)

T = TypeVar("T")


class Keys(Protocol):
    async def find(self, hash_: str) -> ApiKey | None: ...
    async def note_use(self, key_id: str, at: datetime) -> None: ...


class Keyring:
    def __init__(self, keys: Keys, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._keys = keys
        self._clock = clock
        self._strangers = TokenBuckets(clock=clock)
        self._asked: OrderedDict[str, tuple[float, ApiKey | None]] = OrderedDict()
        self._good_at: OrderedDict[str, float] = OrderedDict()
        self._noted_at: dict[str, datetime] = {}

    async def key_of(self, plaintext: str) -> ApiKey:
        """Raises 401, or 429 where too many strangers have tried."""
        if not looks_like_a_key(plaintext):
            raise unauthorized()
        return await self.key_of_hash(hash_of(plaintext))

    async def key_of_hash(self, hash_: str) -> ApiKey:
        """The same for who was let in with that key before, and keeps nothing but its hash."""
        found, now = await self._found(hash_), datetime.now(UTC)
        if found is None or not found.is_good(now):
            raise unauthorized()
        await self._note_use(found, now)
        return found

    async def _found(self, hash_: str) -> ApiKey | None:
        now = self._clock()
        asked_at, key = self._asked.get(hash_, (float("-inf"), None))
        if now - asked_at < REMEMBERED_S:
            return key
        if now - self._good_at.get(hash_, float("-inf")) >= GOOD_LATELY_S:
            taken = self._strangers.take("all", per_s=STRANGERS_PER_S, burst=STRANGERS_BURST)
            if not taken.allowed:
                raise _too_many_strangers(taken.wait_s)
        key = await self._keys.find(hash_)
        _remember(self._asked, hash_, (now, key))
        if key is None:
            self._good_at.pop(hash_, None)
        else:
            _remember(self._good_at, hash_, now)
        return key

    async def _note_use(self, key: ApiKey, now: datetime) -> None:
        noted_at = max(filter(None, (self._noted_at.get(key.id), key.last_used_at)), default=None)
        if noted_at is not None and now - noted_at < USE_NOTED_EVERY:
            return
        self._noted_at[key.id] = now
        while len(self._noted_at) > MOST_REMEMBERED:
            del self._noted_at[next(iter(self._noted_at))]
        try:
            await self._keys.note_use(key.id, now)
        except PyMongoError as error:  # the call itself may still be answered
            log.warning("key_use_not_noted", extra={"key": key.id, "error": type(error).__name__})


def _remember(kept: OrderedDict[str, T], name: str, value: T) -> None:
    kept[name] = value
    kept.move_to_end(name)
    while len(kept) > MOST_REMEMBERED:
        kept.popitem(last=False)


def _too_many_strangers(wait_s: float) -> ProblemError:
    said = "too many calls without a valid key; try again"
    return ProblemError(429, said, headers={"retry-after": str(max(round(wait_s), 1))})
