"""Refusals: calls that nobody has signed. Each is counted; the log gets one line a minute for a trigger and a reason,
since strangers choose how many there are."""

import logging
import time
from collections.abc import Callable
from typing import Protocol

from triggers.register.trigger import Trigger
from triggers.webhook.signature import RefusalReason

log = logging.getLogger(__name__)

LOG_INTERVAL_S = 60.0
MAX_LOGGED_TRIGGERS = 10_000


class RefusalCounter(Protocol):
    """Where refusals are counted: a Tally."""

    def record_refusal(self, trigger: Trigger, reason: str, *, app_id: str | None = None, keep_note: bool = True) -> None: ...


class RefusalLog:
    def __init__(self, stats: RefusalCounter, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._stats = stats
        self._clock = clock
        self._logged: dict[tuple[str, str], tuple[float, int]] = {}  # when, and how many calls since then

    def record(self, trigger: Trigger, reason: RefusalReason, *, app_id: str) -> None:
        self._stats.record_refusal(trigger, reason, app_id=app_id, keep_note=False)
        now, key = self._clock(), (trigger.id, reason)
        at, unsaid = self._logged.get(key, (float("-inf"), 0))
        if now - at < LOG_INTERVAL_S:
            self._logged[key] = at, unsaid + 1
            return
        if len(self._logged) >= MAX_LOGGED_TRIGGERS:
            self._logged.clear()
        self._logged[key] = now, 0
        who = {"app_id": app_id, "workflow": trigger.workflow, "trigger": trigger.spec.name}
        log.warning("webhook_not_verified", extra={**who, "reason": reason, "calls": unsaid + 1})
