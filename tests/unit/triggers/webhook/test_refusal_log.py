"""The refusal log: unverified calls neither fill the log nor displace notes."""

import logging

import pytest

from triggers.register.trigger import Trigger
from triggers.register.trigger_stats import TriggerStats
from triggers.webhook.webhook_endpoint import LOG_INTERVAL_S, RefusalLog
from workflows.package.trigger_specs.webhook_spec import Verification, WebhookSpec

SPEC = WebhookSpec(name="paid", apps=("acme",), verify=Verification(scheme="github", secret=("env:KEY",)))
TRIGGER = Trigger("Orders", SPEC)


class RecordedRefusals(TriggerStats):
    def __init__(self) -> None:
        self.notes: list[tuple[str, bool]] = []

    def record_refusal(
        self, trigger: Trigger, reason: str, *, app_id: str | None = None, keep_note: bool = True
    ) -> None:
        assert (trigger, app_id) == (TRIGGER, "acme")
        self.notes.append((reason, keep_note))


def test_a_flood_is_one_line_a_minute_and_every_call_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    now, counts = [0.0], RecordedRefusals()
    refusals = RefusalLog(counts, clock=lambda: now[0])

    with caplog.at_level(logging.WARNING):
        for _ in range(100):
            refusals.record(TRIGGER, "no_match", app_id="acme")
        refusals.record(TRIGGER, "missing_header", app_id="acme")
        now[0] = LOG_INTERVAL_S
        refusals.record(TRIGGER, "no_match", app_id="acme")

    told = [(record.__dict__["reason"], record.__dict__["calls"]) for record in caplog.records]
    assert told == [("no_match", 1), ("missing_header", 1), ("no_match", 100)]
    assert len(counts.notes) == 102
    assert not any(noted for _, noted in counts.notes)
