"""The keyring: the store is asked once a second for each key, and not at all by a crowd of strangers."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from pymongo.errors import AutoReconnect

from triggers.api.keyring import MAX_CACHED, UNKNOWN_KEYS_BURST, UNKNOWN_KEYS_PER_S, Keyring
from triggers.api_keys import ApiKey, ApiKeys, hash_key
from triggers.gateway.http_problems import ProblemError

GOOD = "ua_" + "g" * 43


class FakeClock:
    now = 1_000.0

    def __call__(self) -> float:
        return self.now


class FakeKeys(ApiKeys):
    def __init__(self) -> None:
        self.key: ApiKey | None = ApiKey("key_1", "ci", "acme", datetime(2026, 1, 1, tzinfo=UTC))
        self.queries: list[str] = []
        self.noted: list[datetime] = []
        self.is_away = False

    async def find(self, hash_: str) -> ApiKey | None:
        self.queries.append(hash_)
        return self.key if hash_ == hash_key(GOOD) else None

    async def note_use(self, key_id: str, at: datetime) -> None:
        assert key_id == "key_1"
        if self.is_away:
            raise AutoReconnect("away")
        self.noted.append(at)


def unknown_key(number: int) -> str:
    return f"ua_{number:043}"


async def status_of(keyring: Keyring, plaintext: str) -> int:
    try:
        await keyring.authenticate(plaintext)
    except ProblemError as problem:
        return problem.status
    return 200


async def test_the_store_is_asked_once_a_second_for_each_key_good_or_not() -> None:
    keys, clock = FakeKeys(), FakeClock()
    keyring = Keyring(keys, clock=clock)

    statuses = [await status_of(keyring, each) for each in (GOOD, unknown_key(1), GOOD, unknown_key(1))]

    assert statuses == [200, 401, 200, 401]
    assert keys.queries == [hash_key(GOOD), hash_key(unknown_key(1))]
    clock.now += 1.0
    await status_of(keyring, GOOD)
    assert len(keys.queries) == 3


async def test_a_revoked_key_is_refused_a_second_later() -> None:
    keys, clock = FakeKeys(), FakeClock()
    keyring = Keyring(keys, clock=clock)
    assert await status_of(keyring, GOOD) == 200
    keys.key = None

    assert await status_of(keyring, GOOD) == 200
    clock.now += 1.0
    assert await status_of(keyring, GOOD) == 401


async def test_a_key_that_expires_is_refused_at_once_though_it_is_remembered() -> None:
    keys = FakeKeys()
    assert keys.key is not None
    keyring = Keyring(keys, clock=FakeClock())
    keys.key = replace(keys.key, expires_at=datetime.now(UTC) + timedelta(milliseconds=50))
    assert await status_of(keyring, GOOD) == 200

    while datetime.now(UTC) < keys.key.expires_at:  # type: ignore[operator]  # it was given one
        pass
    assert await status_of(keyring, GOOD) == 401
    assert len(keys.queries) == 1


async def test_what_cannot_be_a_key_never_reaches_the_store() -> None:
    keys = FakeKeys()
    keyring = Keyring(keys, clock=FakeClock())

    assert [await status_of(keyring, each) for each in ("", "ua_", "x" * 5_000, "ua_ü")] == [401] * 4
    assert keys.queries == []


async def test_unknown_keys_use_up_a_shared_quota_and_good_keys_still_work() -> None:
    keys, clock = FakeKeys(), FakeClock()
    keyring = Keyring(keys, clock=clock)
    assert await status_of(keyring, GOOD) == 200
    clock.now += 10.0

    statuses = [await status_of(keyring, unknown_key(number)) for number in range(UNKNOWN_KEYS_BURST + 50)]

    assert statuses == [401] * UNKNOWN_KEYS_BURST + [429] * 50
    assert len(keys.queries) == UNKNOWN_KEYS_BURST + 1
    assert await status_of(keyring, "ua_other" + "x" * 38) == 429
    clock.now += 1.0
    assert await status_of(keyring, GOOD) == 200
    statuses = [await status_of(keyring, unknown_key(10_000 + number)) for number in range(UNKNOWN_KEYS_PER_S + 50)]
    assert statuses == [401] * UNKNOWN_KEYS_PER_S + [429] * 50


async def test_calls_that_cost_nothing_block_no_key() -> None:
    keys = FakeKeys()
    keyring = Keyring(keys, clock=FakeClock())
    await status_of(keyring, unknown_key(1))

    for plaintext in ("", "ua_guess", unknown_key(1)):  # no key, none that could be one, and one that is remembered
        assert {await status_of(keyring, plaintext) for _ in range(UNKNOWN_KEYS_BURST + 1)} == {401}

    assert len(keys.queries) == 1
    assert await status_of(keyring, GOOD) == 200  # which this process has never seen


async def test_a_use_is_noted_once_a_minute_and_a_lost_store_refuses_no_key() -> None:
    keys = FakeKeys()
    keys.is_away = True
    assert await status_of(Keyring(keys, clock=FakeClock()), GOOD) == 200

    keys.is_away = False
    keyring = Keyring(keys, clock=FakeClock())
    for _ in range(5):
        await status_of(keyring, GOOD)
    assert len(keys.noted) == 1

    assert keys.key is not None
    keys.key = replace(keys.key, last_used_at=datetime.now(UTC) - timedelta(seconds=30))
    await status_of(Keyring(keys, clock=FakeClock()), GOOD)  # another gateway has noted it half a minute ago
    assert len(keys.noted) == 1


async def test_unknown_keys_do_not_fill_the_memory() -> None:
    keys, clock = FakeKeys(), FakeClock()
    keyring = Keyring(keys, clock=clock)
    for number in range(MAX_CACHED + 20):
        clock.now += 1 / UNKNOWN_KEYS_PER_S  # as fast as they are let in
        await status_of(keyring, unknown_key(number))

    assert len(keyring._cache) == MAX_CACHED
