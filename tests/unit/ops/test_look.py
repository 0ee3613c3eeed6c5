"""`unattended runs show`: what it prints of a run for people."""

from typing import Any

from ops.cli.look import story_lines

FAILED = {"where": "after_chat life.py:end", "type": "KeyError", "message": "'x'", "traceback": "", "agent": None}
STORY: dict[str, Any] = {
    "run_id": "run_1",
    "workflow": "Small",
    "app_id": "acme",
    "trigger": {"name": "cli"},
    "state": "succeeded",
    "outcome": {"kind": "completed", "reason": "B ends the chat"},
    "turns": [],
    "errors": [],
    "usage": {"calls": 1, "input_tokens": 2, "output_tokens": 3, "cost_usd": 0},
}


def test_what_failed_outside_of_a_turn_is_shown_too() -> None:
    quiet, loud = list(story_lines(STORY)), list(story_lines({**STORY, "errors": [FAILED]}))

    assert [line for line in loud if line not in quiet] == ["   ! after_chat life.py:end: KeyError: 'x'"]
    assert quiet[-1].startswith("1 model calls, 2 tokens in, 3 out, USD")
