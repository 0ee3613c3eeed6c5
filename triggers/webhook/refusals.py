"""Refusals: calls that nobody has signed. Each is counted; the log gets one line a minute for a trigger and a reason,
since strangers choose how many there are."""

import logging
import time
from collections.abc import Callable
from typing import Protocol

from triggers.register.trigger import Trigger
from triggers.webhook.signature import Reason

log = logging.getLogger(__name__)

LOG_EVERY_S = 60.0
MOST_REMEMBERED = 10_000


class Refused(Protocol):
    """Where refusals are counted: a Tally."""

    def refused(self, trigger: Trigger, reason: str, *, app_id: str | None = None, noted: bool = True) -> None: ...


class Refusals:
    def __init__(self, tally: Refused, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._tally = tally
        self._clock = clock
        self._logged: dict[tuple[str, str], tuple[float, int]] = {}  # when, and how many calls since then

    def note(self, trigger: Trigger, reason: Reason, *, app_id: str) -> None:
        self._tally.refused(trigger, reason, app_id=app_id, noted=False)
        now, key = self._clock(), (trigger.id, reason)
        at, unsaid = self._logged.get(key, (float("-inf"), 0))
        if now - at < LOG_EVERY_S:
            self._logged[key] = at, unsaid + 1
            return
        if len(self._logged) >= MOST_REMEMBERED:
            self._logged.clear()
        self._logged[key] = now, 0
        who = {"app_id": app_id, "workflow": trigger.workflow, "trigger": trigger.spec.name}
        log.warning("webhook_not_verified", extra={**who, "reason": reason, "calls": unsaid + 1})
