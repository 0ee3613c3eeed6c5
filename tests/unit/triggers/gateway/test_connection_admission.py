"""Connection admission: which connections are closed, and which requests get a slot."""

from collections.abc import Sequence
from typing import Any

import pytest

from triggers.gateway.connection_admission import (
    SLOTS,
    ConnectionAdmission,
    QueueName,
    RequestSlot,
    RouteGroup,
    max_connections_for,
    route_group,
)
from triggers.gateway.gateway_metrics import CloseReason, GatewayMetrics


class FakeCaller:
    """A connection without a network."""

    def __init__(
        self, admission: ConnectionAdmission, waits_for: QueueName | None = None, size_bytes: int = 100
    ) -> None:
        self.closed: list[CloseReason] = []
        self._admission = admission
        admission.connections += 1
        if waits_for is not None:
            admission.queues[waits_for].add(self, size_bytes)

    def close_early(self, reason: CloseReason) -> None:
        self.closed.append(reason)
        self._admission.connections -= 1


def admission(*, connections: int = 1_000, hooks: int = 2, **bounds: Any) -> ConnectionAdmission:
    return ConnectionAdmission(GatewayMetrics(), max_connections=connections, slots={**SLOTS, "hooks": hooks}, **bounds)


def callers(admission: ConnectionAdmission, waiting: Sequence[QueueName | None]) -> list[FakeCaller]:
    return [FakeCaller(admission, each) for each in waiting]


@pytest.mark.parametrize(
    ("waiting", "closed"),
    [
        (["head", "hooks", "hooks", "idle"], 1),
        (["hooks", "head", "v1", "head", "head"], 1),
        (["idle", "head", "idle"], 0),
        ([None, None, "console"], 2),
    ],
)
def test_the_longest_queue_loses_its_oldest(waiting: list[QueueName | None], closed: int) -> None:
    full = admission(connections=len(waiting))
    waiters = callers(full, waiting)

    assert full.try_make_room()

    assert [number for number, each in enumerate(waiters) if each.closed] == [closed]
    assert waiters[closed].closed == ["crowded"]


def test_a_request_being_served_is_never_closed_and_no_more_are_accepted() -> None:
    full = admission(connections=3)
    served = callers(full, [None] * 3)

    assert not full.try_make_room()
    assert not any(each.closed for each in served)
    full.connections -= 1
    assert full.try_make_room()
    full.pending = 1  # that one is accepted, and not set up yet
    assert not full.try_make_room()


def test_room_is_made_before_the_last_descriptor_is_taken() -> None:
    spacious = admission(connections=80)
    waiters = callers(spacious, ["head"] * 70)

    assert spacious.try_make_room()
    assert [bool(each.closed) for each in waiters] == [True] + [False] * 69


def test_what_waits_holds_a_bounded_number_of_bytes() -> None:
    crowd = admission(max_waiting_bytes=1_000)
    small = [FakeCaller(crowd, "v1", 10) for _ in range(20)]
    large = [FakeCaller(crowd, "hooks", 300) for _ in range(2)]

    crowd.limit_waiting_bytes()
    assert not large[0].closed
    crowd.queues["hooks"].grow(large[1], 300)
    crowd.limit_waiting_bytes()

    assert large[0].closed == ["crowded"]
    assert not large[1].closed
    assert not any(each.closed for each in small)


def test_small_waiting_callers_do_not_help_large_ones_over_the_bound() -> None:
    crowd = admission(max_waiting_bytes=1_000)
    small = [FakeCaller(crowd, "head", 1) for _ in range(20)]
    large = [FakeCaller(crowd, "head", 400) for _ in range(3)]

    crowd.limit_waiting_bytes()

    assert all(each.closed for each in small)
    assert [bool(each.closed) for each in large] == [True, False, False]


def admit(
    crowd: ConnectionAdmission, route: RouteGroup, arriving_bytes: int | None = None
) -> tuple[FakeCaller, RequestSlot | None]:
    caller = FakeCaller(crowd)
    return caller, crowd.slot_pools[route].try_acquire(caller, arriving_bytes)


def test_one_kind_of_route_fills_no_other() -> None:
    crowd = admission(hooks=2)
    places = [admit(crowd, "hooks")[1] for _ in range(3)]

    assert [place is not None for place in places] == [True, True, False]
    assert all(admit(crowd, route)[1] is not None for route in SLOTS if route != "hooks")
    assert places[0] is not None
    places[0].release()
    assert admit(crowd, "hooks")[1] is not None


def test_an_arrived_body_takes_the_place_of_the_oldest_still_arriving() -> None:
    crowd = admission(hooks=2)
    slow, slow_place = admit(crowd, "hooks", 5_000)
    slower, slower_place = admit(crowd, "hooks", 5_000)
    assert slow_place is not None
    assert slower_place is not None
    slower_place.mark_complete()

    assert admit(crowd, "hooks")[1] is not None

    assert (slow.closed, slower.closed) == (["crowded"], [])
    assert admit(crowd, "hooks")[1] is None  # both hold whole requests
    slow_place.release()  # its app ends later: the slot is counted once
    assert admit(crowd, "hooks")[1] is None
    slower_place.release()
    assert admit(crowd, "hooks")[1] is not None


def test_bodies_that_arrive_hold_a_bounded_number_of_bytes() -> None:
    crowd = admission(hooks=3, arriving_bytes_per_slot=1_000)
    first, first_place = admit(crowd, "hooks", 1_000)
    second, second_place = admit(crowd, "hooks", 1_000)
    assert first_place is not None
    assert second_place is not None

    second_place.add_bytes(1_500)

    assert (first.closed, second.closed) == (["crowded"], [])
    second_place.add_bytes(9_000)  # alone it may be as large as the body limit lets it be
    assert second.closed == []


@pytest.mark.parametrize(
    ("path", "route"),
    [
        ("/hooks/acme/Sales/paid", "hooks"),
        ("/forms/acme/Sales/lead", "forms"),
        ("/v1/runs", "v1"),
        ("/console", "console"),
        ("/console/runs", "console"),
        ("/openapi.json", "other"),
        ("/hooksy", "other"),
        ("", "other"),
    ],
)
def test_a_path_belongs_to_the_share_of_its_route(path: str, route: RouteGroup) -> None:
    assert route_group(path) == route


@pytest.mark.parametrize(("descriptors", "expected"), [(1_048_576, 4_000), (1_024, 768), (256, 128), (2, 1)])
def test_connections_leave_descriptors_for_everything_else(descriptors: int, expected: int) -> None:
    assert max_connections_for(descriptors) == expected


def test_a_connection_counts_once_while_it_is_set_up() -> None:
    full = admission(connections=2)
    waiter = FakeCaller(full, "head")
    full.connections -= 1
    full.pending = 1  # the same one, accepted a moment ago

    full.mark_connected()

    assert full.try_make_room()
    assert not waiter.closed
