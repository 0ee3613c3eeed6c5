"""Connection admission: how many connections and requests a gateway keeps.

A connection that waits (for a head, a body, or the next request) is in a queue. When room is needed, the oldest one
of the longest queue is closed: silent callers displace each other, and never a request that has arrived. A request
whose body has arrived takes a slot of its route, so that one kind of route cannot fill another.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from triggers.gateway.gateway_metrics import CloseReason, GatewayMetrics
from triggers.gateway.request_body import READ_TIMEOUT_S

RouteGroup = Literal["hooks", "forms", "v1", "console", "other"]
QueueName = RouteGroup | Literal["head", "idle"]

# Concurrent requests. Each may hold a body of 1 MiB: a gigabyte at worst.
SLOTS: Mapping[RouteGroup, int] = {"hooks": 600, "forms": 150, "v1": 150, "console": 50, "other": 50}
# A waiting connection costs some 8 KB: 32 MB for all, a third of an idle gateway.
MAX_CONNECTIONS = 4_000
# Of incomplete heads and bodies, over all waiting connections.
MAX_WAITING_BYTES = 16 * 1024 * 1024
# Of bodies that still arrive, per slot of their route: a quarter of the default body limit.
ARRIVING_BYTES_PER_SLOT = 256 * 1024
# For MongoDB's pool (100), the broker, log files, and closing sockets.
RESERVED_DESCRIPTORS = 256
# Room made in advance: a closed connection frees its descriptor a moment later.
SPARE_CONNECTIONS = 64

_ROUTE_PREFIXES: tuple[tuple[str, RouteGroup], ...] = (
    ("/hooks/", "hooks"),
    ("/forms/", "forms"),
    ("/v1/", "v1"),
    ("/console", "console"),
)
_QUEUES: tuple[QueueName, ...] = ("head", "idle", *SLOTS)


def route_group(path: str) -> RouteGroup:
    return next((route for prefix, route in _ROUTE_PREFIXES if path.startswith(prefix)), "other")


def max_connections_for(descriptors: int) -> int:
    """Returns the number of connections that fit beside all other descriptors."""
    return max(min(MAX_CONNECTIONS, descriptors - min(RESERVED_DESCRIPTORS, descriptors // 2)), 1)


@dataclass(frozen=True, slots=True)
class ConnectionTimeouts:
    """How long a connection may wait for its caller."""

    head_s: float = 10.0
    body_s: float = READ_TIMEOUT_S
    rate_interval_s: float = 2.0  # between two checks whether a body arrives fast enough
    unread_s: float = 15.0  # a caller that reads no byte of its responses for this long is disconnected


class Waiter(Protocol):
    """A connection that may be closed to make room.

    `connection.py` implements it, and imports this module.
    """

    def close_early(self, reason: CloseReason) -> None: ...


class WaitQueue:
    """Connections that wait for the same thing, oldest first, with their bytes."""

    def __init__(self) -> None:
        self._members: dict[Waiter, int] = {}
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._members)

    def add(self, waiter: Waiter, size_bytes: int) -> None:
        self._members[waiter] = size_bytes
        self.size_bytes += size_bytes

    def grow(self, waiter: Waiter, size_bytes: int) -> None:
        self._members[waiter] += size_bytes
        self.size_bytes += size_bytes

    def remove(self, waiter: Waiter) -> None:
        self.size_bytes -= self._members.pop(waiter, 0)

    def close_oldest(self, reason: CloseReason) -> None:
        oldest = next(iter(self._members))
        self.remove(oldest)
        oldest.close_early(reason)


class RequestSlot:
    """One request's slot in the pool of its route, from its start until its response."""

    __slots__ = ("_arriving_bytes", "_pool", "waiter")

    def __init__(self, pool: "SlotPool", waiter: Waiter, arriving_bytes: int | None) -> None:
        self._pool: SlotPool | None = pool
        self._arriving_bytes = arriving_bytes
        self.waiter = waiter

    def add_bytes(self, size_bytes: int) -> None:
        if self._pool is not None and self._arriving_bytes is not None:
            self._arriving_bytes += size_bytes
            self._pool.count_arriving(size_bytes)

    def mark_complete(self) -> None:
        """Marks the body as arrived: from now on no other request can take this slot."""
        if self._pool is not None and self._arriving_bytes is not None:
            self._pool.complete(self, self._arriving_bytes)
            self._arriving_bytes = None

    def release(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.release(self, self._arriving_bytes)


class SlotPool:
    """The slots of one kind of route.

    A request whose body still arrives yields its slot to a complete one.
    """

    def __init__(self, slots: int, arriving_bytes_per_slot: int = ARRIVING_BYTES_PER_SLOT) -> None:
        self._max_slots = slots
        self._max_arriving_bytes = slots * arriving_bytes_per_slot
        self._arriving: dict[RequestSlot, None] = {}
        self._arriving_bytes = 0
        self._complete = 0

    def try_acquire(self, waiter: Waiter, arriving_bytes: int | None) -> RequestSlot | None:
        """Returns None when complete requests hold all slots.

        `arriving_bytes`: the size so far of a body that still arrives; None for a complete one.
        """
        if self._complete + len(self._arriving) >= self._max_slots and self._arriving:
            self._close_oldest()
        if self._complete + len(self._arriving) >= self._max_slots:
            return None
        slot = RequestSlot(self, waiter, arriving_bytes)
        if arriving_bytes is None:
            self._complete += 1
        else:
            self._arriving[slot] = None
            self.count_arriving(arriving_bytes)
        return slot

    def count_arriving(self, size_bytes: int) -> None:
        self._arriving_bytes += size_bytes
        while self._arriving_bytes > self._max_arriving_bytes and len(self._arriving) > 1:
            self._close_oldest()

    def complete(self, slot: RequestSlot, arriving_bytes: int) -> None:
        del self._arriving[slot]
        self._arriving_bytes -= arriving_bytes
        self._complete += 1

    def release(self, slot: RequestSlot, arriving_bytes: int | None) -> None:
        if arriving_bytes is None:
            self._complete -= 1
        else:
            del self._arriving[slot]
            self._arriving_bytes -= arriving_bytes

    def _close_oldest(self) -> None:
        oldest = next(iter(self._arriving))
        oldest.release()
        oldest.waiter.close_early("crowded")


class ConnectionAdmission:
    def __init__(
        self,
        metrics: GatewayMetrics,
        *,
        max_connections: int = MAX_CONNECTIONS,
        slots: Mapping[RouteGroup, int] = SLOTS,
        max_waiting_bytes: int = MAX_WAITING_BYTES,
        arriving_bytes_per_slot: int = ARRIVING_BYTES_PER_SLOT,
        timeouts: ConnectionTimeouts | None = None,
    ) -> None:
        self.metrics = metrics
        self.timeouts = timeouts or ConnectionTimeouts()
        self._max_waiting_bytes = max_waiting_bytes
        self.queues = {name: WaitQueue() for name in _QUEUES}
        self.slot_pools = {route: SlotPool(slots[route], arriving_bytes_per_slot) for route in SLOTS}
        self.connections = 0
        self.pending = 0  # connections that are accepted and not set up yet
        self._max_connections = max_connections
        self._spare = min(SPARE_CONNECTIONS, max_connections // 8)
        metrics.watch_connections(
            {
                "head": lambda: len(self.queues["head"]),
                "body": lambda: sum(len(self.queues[route]) for route in SLOTS),
                "idle": lambda: len(self.queues["idle"]),
                "served": lambda: self.connections - sum(map(len, self.queues.values())),
            }
        )

    def mark_connected(self) -> None:
        """Counts an accepted connection as open. It counts once: as pending or as open, never as both."""
        self.pending -= 1
        self.connections += 1

    def try_make_room(self) -> bool:
        """Returns whether one more connection may be accepted.

        Closes the oldest waiting one when room is short.
        """
        if self.connections + self.pending >= self._max_connections - self._spare:
            self._close_oldest_of(max(self.queues.values(), key=len))
        return self.connections + self.pending < self._max_connections

    def limit_waiting_bytes(self) -> None:
        while sum(queue.size_bytes for queue in self.queues.values()) > self._max_waiting_bytes:
            self._close_oldest_of(max(self.queues.values(), key=lambda queue: queue.size_bytes))

    def _close_oldest_of(self, queue: WaitQueue) -> None:
        if len(queue):
            queue.close_oldest("crowded")
