"""`unattended runs show` and `tail`: the lines of a run."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ops.cli.runs.tail_command import event_line
from ops.presenters.run_lines import describe_state, next_steps, run_lines
from ops.presenters.times import format_duration
from workers.control.run_events import EventCursor, RunEvent, events_since

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
FAILED = {"where": "after_chat life.py:end", "type": "KeyError", "message": "'x'", "traceback": "", "agent": None}
TURN: dict[str, Any] = {
    "number": 1,
    "agent": "Collector",
    "text": "counted\nthem",
    "events": [
        {"tool_calls": [{"id": "1", "name": "count", "arguments": '{"region": "eu"}'}]},
        {"tool_results": [{"id": "1", "name": "count", "text": "7"}]},
    ],
    "tool_calls": [{"id": "1", "name": "count", "arguments": '{"region": "eu"}'}],
    "context_changes": {"total": 7},
    "handoff": "Writer",
    "tokens": {"input": 120, "output": 8},
    "duration_s": 0.25,
    "errors": [],
}
STORY: dict[str, Any] = {
    "run_id": "run_1",
    "workflow": "Small",
    "app_id": "acme",
    "trigger": {"name": "cli", "type": "api", "id": "e1", "nominal_at": None},
    "state": "succeeded",
    "hold": None,
    "attempt": 1,
    "package_version": "abc",
    "lease": {"owner": None, "token": 1, "until": None},
    "created_at": AT,
    "started_at": AT + timedelta(seconds=2),
    "finished_at": AT + timedelta(seconds=95),
    "outcome": {"kind": "completed", "reason": "B ends the chat", "error": None},
    "turns": [],
    "history": [],
    "errors": [],
    "usage": {"calls": 1, "input_tokens": 2, "output_tokens": 3, "cost_usd": 0},
}


def event_lines(**changes: Any) -> list[str]:
    return [line for _, line in run_lines({**STORY, **changes})]


def test_a_state_of_a_newer_version_is_shown_as_it_is() -> None:
    lines = event_lines(state="compensating", outcome=None)

    assert "compensating" in lines
    assert list(next_steps({**STORY, "state": "compensating"})) == []


def test_a_stranded_run_is_not_shown_as_one_that_ended_well() -> None:
    outcome = {"kind": "no_transition", "reason": "no rule of B applies; none …", "error": None}
    [_, plain, *_], [_, stranded, *_] = (
        list(run_lines({**STORY, "outcome": each})) for each in (outcome, {**outcome, "stranded": True})
    )

    assert plain == ("green", "succeeded, no_transition: no rule of B applies; none …")
    assert stranded == ("yellow", "succeeded, no_transition (stranded): no rule of B applies; none …")


def owner(token: int, turn: int, ended: str, reason: str = "") -> dict[str, Any]:
    line = {"token": token, "owner": f"w{token}", "from": AT, "until": AT + timedelta(seconds=5)}
    return {**line, "turn": turn, "ended": ended, "reason": reason}


def test_what_failed_outside_of_a_turn_is_shown_too() -> None:
    quiet, loud = event_lines(), event_lines(errors=[FAILED])

    assert [line for line in loud if line not in quiet] == ["   ! after_chat life.py:end: KeyError: 'x'"]
    assert quiet[-1].startswith("1 model call, 2 tokens in, 3 out, USD")


@pytest.mark.parametrize(("count", "words"), [(1, "1 tool call"), (12, "12 tool calls")])
def test_a_successful_run_with_failed_tools_shows_them(count: int, words: str) -> None:
    assert [line for line in event_lines(failed_tools=count) if line not in event_lines()] == [f"  failed     {words}"]
    assert event_lines(failed_tools=0) == event_lines()


def test_a_tool_that_failed_the_run_is_named() -> None:
    error = {"type": "ToolFailed", "message": "so", "agent": "Payer", "turn": 2, "tool": "charge"}
    lines = event_lines(state="failed", outcome={"kind": "tool_error", "reason": "so", "error": error})

    assert "  ToolFailed of the tool charge of Payer in turn 2: so" in lines


def test_the_head_names_the_runs_owner_and_its_duration() -> None:
    assert event_lines()[:6] == [
        "run_1  Small for acme",
        "succeeded, completed: B ends the chat",
        "  trigger    cli (api), event e1",
        "  accepted   2026-01-02 03:04:05 UTC",
        "  started    2026-01-02 03:04:07 UTC, after 2.0 s",
        "  ended      2026-01-02 03:05:40 UTC, after 1 min 33 s",
    ]


def test_each_owner_is_shown_with_its_turns_and_how_it_released_the_run() -> None:
    history = [owner(1, 1, "worker_lost", "its lease ran out"), owner(2, 2, "succeeded")]
    lines = event_lines(turns=[TURN, {**TURN, "number": 2, "agent": "Writer", "handoff": None}], history=history)

    start = lines.index("w1 from 2026-01-02 03:04:05 UTC for 5.0 s, lease 1")
    assert lines[start + 1 : start + 9] == [
        "1. Collector → Writer  (120 tokens in, 8 out, 0.25 s)",
        '   calls count({"region": "eu"}) → 7',
        "   counted",
        "   them",
        "   total = 7",
        "  worker lost after turn 1: its lease ran out",
        "",
        "w2 from 2026-01-02 03:04:05 UTC for 5.0 s, lease 2",
    ]
    assert lines[start + 9].startswith("2. Writer → end")


def test_an_owner_that_continued_with_another_version_shows_it() -> None:
    versions = ("sha256:one", "sha256:one", "sha256:two", None)
    history = [{**owner(number, 0, "handed_back"), "package_version": each} for number, each in enumerate(versions, 1)]

    heads = [line for line in event_lines(history=history) if ", lease " in line]

    assert [line.partition(", package ")[2] for line in heads] == ["", "", "sha256:two from here on", ""]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"state": "queued"}, "  waits      for a worker"),
        ({"state": "queued", "hold": "rate", "held_by": "rate:acme"}, "  held       by the rate limit rate:acme"),
        (
            {"state": "queued", "hold": "budget", "held_by": "budget:app:acme/day/usd", "held_until": AT},
            "  held       by the budget app:acme/day/usd, until 2026-01-02 03:04:05 UTC",
        ),
        (
            {"state": "queued", "hold": "budget", "held_by": "budget:app:acme/total/usd"},
            "  held       by the budget app:acme/total/usd, until its limit is raised",
        ),
        (
            {"state": "queued", "hold": "concurrency", "order": {"key": "acme/doc 7"}, "waits_for": "run_1"},
            "  waits      for run_1; one run at a time of acme/doc 7",
        ),
        ({"state": "queued", "not_before": AT}, "  due        2026-01-02 03:04:05 UTC"),
        ({"chain": ["Digest/done", "Report/done"]}, "  chain      Digest/done → Report/done"),
        (
            {"state": "queued", "debounce": {"until": AT, "events": 3}},
            "  events     3 so far, merged until 2026-01-02 03:04:05 UTC",
        ),
        (
            {"state": "queued", "not_before": AT, "last_requeue": {"at": AT, "reason": "429"}},
            "  queued     again 2026-01-02 03:04:05 UTC: 429",
        ),
        (
            {"state": "running", "lease": {"owner": "w9", "token": 4, "until": AT}},
            "  owner      w9, lease 4 until 2026-01-02 03:04:05 UTC",
        ),
        (
            {"resolved": {"how": "replayed", "by": "ann", "at": AT, "run_id": "run_2"}},
            "  resolved   replayed as run_2 by ann, 2026-01-02 03:04:05 UTC",
        ),
        ({"state": "parked"}, "  at rest    since 2026-01-02 03:05:40 UTC, after 1 min 33 s"),
        ({"replay_of": "run_0"}, "  replay of  run_0"),
        ({"keys_of": "run_0"}, "  keys       tools get the idempotency keys of run_0"),
        ({"replays": ["run_2", "run_3"]}, "  replayed   as run_2, run_3"),
    ],
    ids=[
        *("queued", "held", "by a budget", "by a total", "in order", "later", "chained", "debounced"),
        *("waits", "running", "resolved", "parked", "replay", "keys", "replayed"),
    ],
)
def test_why_it_stands_where_it_stands(changes: dict[str, Any], expected: str) -> None:
    assert expected in event_lines(**{"outcome": None, **changes})


@pytest.mark.parametrize(
    ("changes", "commands"),
    [
        ({"state": "parked"}, ["replay", "discard"]),
        ({"state": "needs_human"}, ["answer", "discard"]),
        ({"state": "needs_human", "question": {"kind": "tool", "tool": "ask"}}, ["answer", "discard"]),
        ({"state": "failed"}, ["replay"]),
        ({"state": "failed", "replays": ["run_2"]}, []),
        ({"state": "queued", "not_before": AT}, ["retry-now"]),
        ({"state": "queued", "hold": "rate"}, []),
        ({"state": "running"}, ["tail"]),
        ({"state": "succeeded"}, []),
    ],
)
def test_the_next_step_is_a_command(changes: dict[str, Any], commands: list[str]) -> None:
    steps = list(next_steps({**STORY, **changes}))

    assert [step.split("unattended runs ")[1].split()[:2] for step in steps] == [[name, "run_1"] for name in commands]


DONE = {"sentences": ["turn 1: pay(amount=12) was called"], "about_keys": "Its tools are given the same key."}


@pytest.mark.parametrize(
    ("changes", "is_listed"),
    [
        ({"state": "failed"}, True),
        ({"state": "parked"}, True),
        ({"state": "failed", "replays": ["run_2"]}, False),  # no replay is suggested
        ({"state": "succeeded"}, False),
    ],
)
def test_before_a_replay_is_advised_what_it_would_do_again_is_listed(changes: dict[str, Any], is_listed: bool) -> None:
    lines = event_lines(done=DONE, **changes)

    assert ("  turn 1: pay(amount=12) was called" in lines) is is_listed
    if is_listed:
        place = lines.index("  turn 1: pay(amount=12) was called")
        assert "repeats these effects" in lines[place - 1]
        assert lines[place + 1] == "Its tools are given the same key."
        assert "unattended runs replay run_1" in lines[place + 2]


def test_nothing_in_a_story_steers_a_terminal() -> None:
    evil = "\x1b[2J\rroot"
    history = [{**owner(1, 1, "retry", evil), "owner": evil}]
    lines = event_lines(
        workflow=evil,
        outcome={"kind": "failed", "reason": evil, "error": {"type": evil, "message": evil, "agent": evil, "turn": 1}},
        turns=[{**TURN, "text": evil}],
        history=history,
        answers=[{"by": evil, "at": AT, "message": evil}],
        last_requeue={"at": AT, "reason": evil},
        state="queued",
    )

    assert "".join(lines).isprintable()


RUN = {**{name: value for name, value in STORY.items() if name != "run_id"}, "_id": "run_ABCDEF", "turn": 2}
RUN |= {"claimed_at": AT, "history": [owner(1, 1, "worker_lost"), owner(2, 2, "succeeded")]}


def test_events_between_two_looks_are_shown_in_order() -> None:
    turns = [TURN, {**TURN, "number": 2}]

    found = list(events_since(EventCursor(), RUN, turns))
    lines = [event_line(each, is_single_run=True).plain for each in found]

    events = ["accepted", "claimed", "turn", "let_go", "claimed", "turn", "ended"]
    assert [each.event for each in found] == events
    assert lines[2] == "          1. Collector → Writer  (120 in, 8 out, 0.25 s)  calls count  counted them"
    assert lines[3] == "03:04:10  worker lost after turn 1"
    assert lines[-1] == "03:05:40  succeeded, completed: B ends the chat"
    assert event_line(found[0], is_single_run=False).plain == "03:04:05  …ABCDEF Small/acme  accepted from cli"


def test_a_past_wait_for_a_person_is_shown_though_it_goes_on() -> None:
    asked = {"state": "queued", "finished_at": None, "history": [owner(1, 0, "needs_human", "approve asks")]}

    found = list(events_since(EventCursor(), {**RUN, **asked, "turn": 0}, []))

    assert [each.event for each in found] == ["accepted", "claimed", "let_go"]
    assert event_line(found[-1], is_single_run=True).plain == "03:04:10  needs human after turn 0: approve asks"


@pytest.mark.parametrize(
    ("before", "changes", "events"),
    [
        (EventCursor(is_accepted=True, claimed_token=1, state="queued"), {"state": "queued", "hold": "rate"}, ["held"]),
        (
            EventCursor(is_accepted=True, claimed_token=1, state="queued", hold="rate"),
            {"state": "queued", "hold": "rate"},
            [],
        ),
        (EventCursor(is_accepted=True, claimed_token=1, state="needs_human"), {"state": "queued"}, ["answered"]),
        (
            EventCursor(is_accepted=True, claimed_token=1, state="queued"),
            {"state": "queued", "not_before": AT},
            ["due"],
        ),
        (
            EventCursor(is_accepted=True, claimed_token=1, state="parked"),
            {"state": "cancelled", "resolved": {"at": AT, "by": "ann", "how": "discarded"}},
            ["resolved", "ended"],
        ),
        (
            EventCursor(is_accepted=True, claimed_token=1, state="running"),
            {"state": "running", "cancel_requested": {"at": AT, "by": "ann"}},
            ["cancel_requested"],
        ),
    ],
)
def test_only_new_events_are_shown(before: EventCursor, changes: dict[str, Any], events: list[str]) -> None:
    found = list(events_since(before, {**RUN, "history": [], **changes}, []))

    assert [each.event for each in found] == events
    assert all(event_line(each, is_single_run=False).plain for each in found)


@pytest.mark.parametrize(
    ("seconds", "expected"), [(0.25, "0.2 s"), (75, "1 min 15 s"), (7500, "2 h 5 min"), (300_000, "3 d 11 h")]
)
def test_a_time_is_shown_in_everyday_form(seconds: float, expected: str) -> None:
    assert format_duration(AT, AT + timedelta(seconds=seconds)) == expected


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        ({"state": "queued", "hold": None}, "queued"),
        ({"state": "queued", "hold": None, "not_before": AT}, "queued (later)"),
        ({"state": "queued", "hold": "rate", "held_by": "rate:acme"}, "queued (rate)"),
        ({"state": "queued", "hold": "concurrency", "held_by": "order:acme/doc"}, "queued (in order)"),
        ({"state": "succeeded", "hold": None, "not_before": None}, "succeeded"),
    ],
    ids=["ready", "later", "held", "in order", "ended"],
)
def test_a_list_shows_why_a_run_may_not_start_yet(run: dict[str, Any], expected: str) -> None:
    assert describe_state(run) == expected


def test_a_run_that_waits_for_its_turn_is_followed_as_such() -> None:
    held = RunEvent("held", None, "run_1", "acme", "Relay", {"hold": "concurrency", "held_by": "order:acme/doc"})

    assert event_line(held, is_single_run=True).plain.strip() == "waits for its turn in acme/doc"


@pytest.mark.parametrize(
    ("state", "style"), [("succeeded", "green"), ("needs_human", "yellow"), ("failed", "red"), ("parked", "red")]
)
def test_a_run_that_waits_for_a_person_is_no_red_error(state: str, style: str) -> None:
    facts = {"state": state, "outcome": "x", "reason": "pay waits for a person"}
    error = {"type": "NeedsHuman", "message": "pay waits", "agent": "A", "turn": 1}
    question = {"kind": "tool", "number": 1, "turn": 1, "text": "pay waits for a person", "tool": "Refund"}
    outcome = {"kind": "needs_human", "reason": "pay waits for a person", "error": error}

    ended = event_line(RunEvent("ended", None, "run_1", "acme", "Relay", facts), is_single_run=True)
    lines = [*run_lines({**STORY, "state": "needs_human", "outcome": outcome, "questions": [question]})]

    assert ended.spans[-1].style == style
    assert "red" not in {style for style, _ in lines}
    assert sum("pay waits" in line for _, line in lines) == 1  # printed once
