"""Lanes: lanes take turns, and no ticket is dropped while a run waits for it."""

from contextlib import AbstractAsyncContextManager, nullcontext
from types import SimpleNamespace
from typing import Any, cast

import pytest

from workers.admission.claim_lanes import MAX_REFRESHES, Lanes, LaneSnapshot
from workers.store.run import Claim


def test_turns_go_round_in_order_of_names() -> None:
    look = LaneSnapshot({"b": 5, "": 5, "a": 9}, began=0)

    assert (look.lane_after(""), look.lane_after("a"), look.lane_after("b"), look.lane_after("zz")) == (
        "a",
        "b",
        "",
        "",
    )
    assert (look.urgency_of("a"), look.urgency_of("gone")) == (9, 0)


def test_a_lane_that_is_forgotten_is_skipped() -> None:
    look = LaneSnapshot({"a": 5, "b": 5}, began=0)

    look.remove("a")
    look.remove("a")
    look.remove("other")

    assert (look.lane_after(""), look.lane_after("b"), len(look)) == ("b", "b", 1)


class _Store:
    """A double of the index and the claims: `thefts` happen just before a claim."""

    def __init__(self, *thefts: dict[str, str]) -> None:
        self.ready = {"a": "mine"}
        self.thefts = [*thefts]

    async def ready_lanes(self) -> dict[str, int]:
        return dict.fromkeys(self.ready, 5)

    async def claim_first(self, lane: str, **_: Any) -> Claim | None:
        if self.thefts:
            self.ready = self.thefts.pop(0)
        run_id = self.ready.pop(lane, None)
        return None if run_id is None else Claim(run_id, "me", 1, {"app_id": lane, "workflow": "W"})


class _AdmitAll:
    def exclusive(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    async def try_admit(self, _: Claim) -> bool:
        return True


def lanes_on(store: _Store) -> Lanes:
    return Lanes(cast("Any", store), cast("Any", _AdmitAll()), lambda: False)


async def test_a_ticket_of_a_taken_run_starts_the_run_of_the_takers_ticket() -> None:
    claim = await lanes_on(_Store({"b": "theirs"})).claim_next("mine")

    assert claim is not None
    assert claim.run_id == "theirs"


async def test_a_ticket_is_thrown_away_when_nothing_is_ready() -> None:
    assert await lanes_on(_Store({})).claim_next("mine") is None


async def test_a_look_before_a_ticket_came_proves_nothing_about_its_run() -> None:
    store = _Store()
    lanes = lanes_on(store)
    assert await lanes.claim_next("mine") is not None
    assert await lanes.claim_next("late") is None

    store.ready = {"a": "next"}  # accepted after that refresh, which is recent enough to be reused

    claim = await lanes.claim_next("next")
    assert claim is not None
    assert claim.run_id == "next"


class _StoreSlowOnce(_Store):
    """A store with a first answer after half a minute, as in an election."""

    now = 100.0
    took_s = 30.0

    async def ready_lanes(self) -> dict[str, int]:
        self.now, self.took_s = self.now + self.took_s, 0.0
        return await super().ready_lanes()


async def test_after_a_look_that_took_long_another_apps_run_still_gets_its_turn() -> None:
    store = _StoreSlowOnce()
    lanes = Lanes(cast("Any", store), cast("Any", _AdmitAll()), lambda: False, clock=lambda: store.now)
    assert await lanes.claim_next("mine") is not None

    store.ready, store.now = {"a": "one of thousands", "b": "the only one"}, store.now + 2

    claim = await lanes.claim_next("one of thousands")
    assert claim is not None
    assert claim.run_id == "the only one"


async def test_a_lane_that_cannot_be_claimed_is_given_up() -> None:
    stuck = [{"b": "stuck"}, {"a": "stuck"}] * MAX_REFRESHES

    assert await lanes_on(_Store(*stuck)).claim_next("mine") is None


class _Slots:
    def __init__(self, free: int) -> None:
        self.free = free

    def has_room(self) -> bool:
        return self.free > 0

    def reserve(self) -> bool:
        self.free -= self.has_room()
        return True

    def release(self) -> None:
        self.free += 1


class _AdmitNone(_AdmitAll):
    async def try_admit(self, _: Claim) -> bool:
        return False


@pytest.mark.parametrize(("free", "found"), [(1, "mine"), (0, None)])
async def test_a_suspect_is_seen_only_while_there_is_a_slot_for_it(free: int, found: str | None) -> None:
    store, places = _Store({"alone!a": "mine"}), _Slots(free)
    store.ready = {"alone!a": "mine"}
    lanes = Lanes(cast("Any", store), cast("Any", _AdmitAll()), lambda: False, isolation_slots=places)

    claim = await lanes.claim_next("ticket")

    assert (claim and claim.run_id) == found
    assert places.free == 0


@pytest.mark.parametrize("admission", [_AdmitNone(), None], ids=["held", "taken by another worker"])
async def test_a_slot_that_was_reserved_in_vain_is_free_again(admission: _AdmitAll | None) -> None:
    store, places = _Store({}), _Slots(1)
    store.ready = {"alone!a": "mine"}
    store.thefts = [{}] if admission is None else [{"alone!a": "mine"}, {}]
    claims_alone = _solo_lanes(store)
    lanes = Lanes(
        claims_alone,
        cast("Any", admission or _AdmitAll()),
        lambda: True,
        isolation_slots=places,
    )

    assert await lanes.claim_next("ticket") is None

    assert places.free == 1


def _solo_lanes(store: _Store) -> Any:
    async def claim_first(lane: str, **_: Any) -> Claim | None:
        claim = await store.claim_first(lane)
        return None if claim is None else Claim(claim.run_id, "me", 1, {**claim.document, "lease": {"alone": True}})

    return SimpleNamespace(claim_first=claim_first, ready_lanes=store.ready_lanes)
