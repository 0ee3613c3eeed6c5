"""The rows of `triggers list`, which `cut` and `awk` read from a pipe."""

from typing import Any

import pytest

from ops.cli.triggers.list_triggers_command import MAX_APPS_SHOWN, _trigger_cells

ROW: dict[str, Any] = {
    "trigger_id": "Digest/nightly",
    "type": "schedule",
    "apps": ["acme"],
    "apps_from": None,
    "state": "active",
    "inactive": None,
    "inactive_here": False,
    "paused": None,
    "paused_apps": {},
    "last_fired_at": None,
    "next_at": None,
}


@pytest.mark.parametrize(
    ("changes", "cell"),
    [
        ({}, "acme"),
        ({"apps": []}, ""),
        ({"apps": [], "apps_from": "event"}, "from the event"),
        ({"apps": [f"a{n}" for n in range(MAX_APPS_SHOWN + 2)]}, "a0, a1, a2, a3, a4 and 2 more"),
    ],
)
def test_a_trigger_without_apps_has_an_empty_cell(changes: dict[str, Any], cell: str) -> None:
    assert _trigger_cells({**ROW, **changes}) == ["Digest/nightly", "schedule", cell, "active", "", "", ""]
