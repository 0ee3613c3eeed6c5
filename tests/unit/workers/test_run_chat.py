"""The chat of a run: what the run document says, as a conversation works on it."""

from pathlib import Path
from typing import Any

from tests.unit.workflows.packages import load
from workers.steps.run_chat import answers_by_question, ui_responses_of


def trigger(name: str, **given: Any) -> dict[str, Any]:
    return {"name": name, "type": "schedule", "every": "1h", "apps": ["acme"], **given}


def test_a_run_has_the_answers_of_its_own_trigger(tmp_path: Path) -> None:
    answers = {"approve": {"verdict": "yes"}}
    package = load(tmp_path / "P", triggers=[trigger("nightly", ui_responses=answers), trigger("weekly")])

    found = [ui_responses_of(package, {"trigger": {"name": name}}) for name in ("nightly", "weekly", "by-hand")]

    assert found == [answers, {}, {}]


def test_what_came_with_the_run_holds_and_not_what_a_namesake_in_the_package_says(tmp_path: Path) -> None:
    package = load(tmp_path / "P", triggers=[trigger("nightly", ui_responses={"approve": {"verdict": "yes"}})])
    named = {"trigger": {"name": "nightly"}}

    assert ui_responses_of(package, {**named, "ui_responses": {"approve": {"verdict": "no"}}}) == {
        "approve": {"verdict": "no"}
    }
    assert ui_responses_of(package, {**named, "ui_responses": {}}) == {}


def test_an_answer_to_a_question_of_an_older_version_answers_none() -> None:
    """The run asked before an upgrade, and was answered after it."""
    old = {"kind": "tool", "tool": "Refund", "function": "approve"}
    answers = [
        {"turn": 1, "by": "ann", "responses": {}},
        {"number": 2, "turn": 1, "by": "ann", "responses": {}, "question": old},
        {"number": 3, "turn": 1, "by": "ann", "responses": {}, "question": {**old, "id": "q_1"}},
        {"number": 4, "turn": 1, "by": "ann", "message": "yes", "question": {"kind": "message", "id": "q_2"}},
    ]

    assert [each["number"] for each in answers_by_question({"answers": answers}).values()] == [3]
