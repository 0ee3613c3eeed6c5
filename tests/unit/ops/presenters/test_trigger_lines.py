"""A trigger as lines: state, what comes next, and skipped events."""

from datetime import UTC, datetime
from typing import Any

import pytest

from ops.presenters.skip_reasons import describe_reason
from ops.presenters.trigger_lines import trigger_lines

AT = datetime(2026, 3, 29, 1, tzinfo=UTC)
PAUSE = {"at": AT, "by": "ada", "note": "moving", "reason": "operator"}
TRIGGER: dict[str, Any] = {
    "trigger_id": "Digest/nightly",
    "workflow": "Digest",
    "name": "nightly",
    "type": "schedule",
    "origin": "package",
    "app_id": None,
    "apps": ["acme"],
    "apps_from": None,
    "description": "",
    "state": "active",
    "inactive": None,
    "inactive_here": False,
    "paused": None,
    "paused_apps": {},
    "last_fired_at": None,
    "next_at": None,
    "counts": {},
    "revision": 0,
    "created_at": None,
    "source": "/apps/acme/workflows/Digest/triggers/nightly",
    "outlook": {},
    "notes": [],
}


def lines(**changes: Any) -> list[str]:
    return [text for _, text in trigger_lines({**TRIGGER, **changes})]


def test_an_active_trigger_has_short_lines() -> None:
    assert lines() == [
        "Digest/nightly  schedule for acme",
        "active",
        "  from         the package Digest",
        "  source       /apps/acme/workflows/Digest/triggers/nightly",
        "→ start a run by hand: unattended triggers fire Digest/nightly",
    ]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"state": "inactive", "inactive": "no apps", "apps": []}, ["inactive: no apps", "schedule for no app"]),
        ({"answers_approved_by": "boss (api)"}, ["answers      in advance, approved by boss (api)"]),
        ({"answers_approved_by": None}, ["in advance, approved by no key that may approve; edit the trigger"]),
        (
            {"state": "paused", "paused": PAUSE},
            ["paused by ada, 2026-03-29 01:00:00 UTC: moving", "resume Digest/night"],
        ),
        ({"state": "paused", "paused": PAUSE, "inactive": "no secret"}, ["and inactive: no secret"]),
        (
            {"state": "inactive", "inactive": "no secret", "inactive_here": True},
            ["inactive: in this command's environment: no secret"],
        ),
        (
            {"outlook": {"secrets": [{"secret": "env:A", "problem": None}, {"secret": "env:B", "problem": "is away"}]}},
            ["  secrets      env:A", "               env:B  in this command's environment: is away"],
        ),
        ({"state": "paused", "outlook": {"next": [AT]}}, ["  would run at 2026-03-29 01:00:00 UTC"]),
        ({"paused_apps": {"globex": {**PAUSE, "note": ""}}}, ["paused for globex by ada, 2026-03-29 01:00:00 UTC"]),
        ({"apps": [f"a{n}" for n in range(12)]}, ["a9 and 2 more"]),
        ({"apps": [], "apps_from": "event"}, ["for apps from the event"]),
        (
            {"counts": {"skipped.when": 1, "merged": 5, "accepted": 2}},
            ["counts       2 accepted, 5 merged, 1 skipped (when)"],
        ),
        ({"origin": "api", "created_at": AT, "revision": 3}, ["created      at run time, 2026-03-29 01:00:00 UTC"]),
        ({"outlook": {"state": "suspended"}}, ["resume Digest/nightly --from now"]),
        ({"outlook": {"warning": "no pre-images"}}, ["! no pre-images"]),
        ({"outlook": {"late_s": 0, "rate": None}}, ["late by      0.0 s"]),
        ({"outlook": {"fields": {"email": {"required": True}}}}, ["fields       email  required yes"]),
        ({"description": "two\nlines\x1b[31m"}, ["  two\\nlines\\x1b[31m"]),
    ],
)
def test_what_is_special_about_a_trigger_is_shown(changes: dict[str, Any], expected: list[str]) -> None:
    text = "\n".join(lines(**changes))

    for each in expected:
        assert each in text
    assert "None" not in text


def test_next_times_are_shown_in_both_zones_where_these_differ() -> None:
    utc = {"utc": AT, "local": "2026-03-29T01:00:00+00:00"}
    berlin = {"utc": AT, "local": "2026-03-29T03:00:00+02:00"}

    shown = lines(outlook={"next": [utc, berlin], "nothing_next": "paused"})

    assert "  next         2026-03-29 01:00:00 UTC" in shown
    assert "               2026-03-29 01:00:00 UTC  (2026-03-29 03:00:00+02:00)" in shown
    assert "  but idle     paused" in shown


@pytest.mark.parametrize(
    ("note", "expected"),
    [
        ({"reason": "overlap", "app_id": "acme", "nominal_at": AT}, "overlap: the previous run was not finished, app"),
        (
            {"reason": "late", "nominal_at": AT, "until": AT.replace(hour=5), "times": 1000, "exact": False},
            "late ×1,000 or more: the time was missed by more than misfire.grace, and misfire.policy is skip,"
            " from 2026-03-29 01:00:00 UTC to 2026-03-29 05:00:00 UTC",
        ),
        (
            {"reason": "duplicate", "times": 2, "first_at": AT, "at": AT.replace(hour=5), "event_id": "msg_2"},
            "duplicate ×2: the event had started a run already, from 2026-03-29 01:00:00 UTC"
            " to 2026-03-29 05:00:00 UTC, last event msg_2",
        ),
        (
            {"reason": "duplicate", "times": 2, "first_at": AT, "at": AT},
            "duplicate ×2: the event had started a run already",
        ),
        ({"reason": "paused", "detail": "moving"}, "paused: the trigger was paused (moving)"),
        ({"reason": "brand_new"}, "brand_new: brand new"),
        ({}, "unknown"),
    ],
)
def test_a_reason_is_shown_with_its_subject(note: dict[str, Any], expected: str) -> None:
    assert expected in describe_reason(note)
    assert expected in "\n".join(lines(notes=[note]))


def test_its_answers_for_people_are_shown_one_by_one() -> None:
    small = {"when": "arguments.amount <= `50`", "answer": {"verdict": "yes"}}
    spec = {"name": "x", "ui_responses": {"pay": [small, {"answer": {"verdict": "no"}}], "Card": {"seen": True}}}

    shown = [each.strip() for each in lines(spec=spec) if "answers" in each]

    assert shown == [
        """answers      pay: {"verdict": "yes"} when arguments.amount <= `50`""",
        """answers      pay: {"verdict": "no"}""",
        """answers      Card: {"seen": true}""",
    ]


def test_what_it_waits_for_is_shown_as_written() -> None:
    spec = {"name": "nightly", "type": "schedule", "every": "1h", "overlap": "buffer_one", "misfire": {"policy": "all"}}

    expected = "\n".join(lines(spec=spec))

    assert "overlap      buffer_one" in expected
    assert "misfire" in expected
    assert "every " not in expected
