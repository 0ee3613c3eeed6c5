"""`unattended billing list` and `show` on a terminal: one line per batch and event at any width."""

from datetime import UTC, datetime
from typing import Any

import pytest
from rich.cells import cell_len

from ops.cli.billing.list_batches_command import batch_lines, event_lines
from ops.cli.output import Terminal

AT = datetime(2026, 3, 1, 12, 30, 5, tzinfo=UTC)
BATCH: dict[str, Any] = {
    "batch_id": "batch_01M7T68P6V5855JJMHPQWSB7PG",
    "state": "pending",
    "events": 50,
    "failures": 3,
    "created_at": AT,
    "next_attempt_at": AT,
    "last_failure": {"at": AT, "what": "the call failed (ConnectError)\x1b[31m", "batch_id": "x"},
}
DELIVERED = {**BATCH, "state": "delivered", "next_attempt_at": None, "last_failure": None}
EVENT: dict[str, Any] = {
    "id": "run_01KJ3W5R6H1V6P9Y8Z2M4N7Q0T:3:2",
    "app_id": "umbrella-eu-production-tenant-0042",
    "workflow": "日本語のアプリ",
    "model": "gpt-5-mini",
    "tokens_used": 1310,
    "cost_usd": None,
    "status": "reported",
    "corrects": True,
}


def screen(width: int) -> Terminal:
    return Terminal(width, has_colours=False, has_unicode=True)


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_a_batch_and_an_event_are_a_line_each_that_fits(width: int) -> None:
    batches = [*batch_lines([BATCH, DELIVERED], screen(width))]
    events = [*event_lines([EVENT, {**EVENT, "corrects": False}], screen(width))]

    assert (len(batches), len(events)) == (3, 3)
    assert max(map(cell_len, [*batches, *events])) <= width
    assert all(line.startswith(BATCH["batch_id"]) for line in batches[1:])
    assert events[1].startswith("run_01")
    assert "unknown" in events[1]
    assert "\x1b" not in "".join(batches)


def test_what_is_next_and_why_it_failed_is_kept_the_longest() -> None:
    narrow, wide = ([*batch_lines([BATCH], screen(width))][1].split(maxsplit=2)[2] for width in (80, 200))

    assert narrow.split()[:2] == ["03-01", "12:30"]
    assert narrow.endswith("[31m")
    assert wide.split()[:6] == ["50", "3", "2026-03-01", "12:30:05", "2026-03-01", "12:30:05"]
    assert wide.endswith("the call failed (ConnectError)\\x1b[31m")
