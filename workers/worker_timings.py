"""The timings of a worker process: how long it waits before it judges itself unhealthy, and how often it looks.

They follow from measurements, not from a deployment, so they are no settings. Tests pass shorter ones to the loader of
the Celery app (`workers.celery.settings_loader`).
"""

from dataclasses import dataclass, field
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class ConsumerTimings:
    tick_s: float = 2.0
    tick_patience_s: float = 15.0
    answer_patience_s: float = 10.0
    take_patience_s: float = 15.0
    stuck_s: float = 120.0  # longer than any wait for a frozen Redis, retries included
    probe_interval_s: float = 3.0
    dead_after_s: float = 180.0


@dataclass(frozen=True, slots=True)
class MemoryTimings:
    check_interval_s: float = 10.0
    min_uptime_s: float = 600.0
    trim_interval_s: float = 60.0  # each full collection over a thousand chats takes a part of a second


@dataclass(frozen=True, slots=True)
class IsolationTimings:
    start_timeout_s: float = 60.0
    retry_delay: timedelta = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class WorkerTimings:
    consumer: ConsumerTimings = field(default_factory=ConsumerTimings)
    memory: MemoryTimings = field(default_factory=MemoryTimings)
    isolation: IsolationTimings = field(default_factory=IsolationTimings)
    stuck_leases: int = 4
    min_stuck_s: float = 60.0

    def stuck_s(self, lease_s: int) -> float:
        """Returns after how long a still event loop ends the process."""
        return max(lease_s * self.stuck_leases, self.min_stuck_s)
