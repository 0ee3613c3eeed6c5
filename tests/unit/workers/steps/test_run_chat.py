"""The chat of a run: the conversation that is built from a run document."""

from pathlib import Path
from typing import Any

from tests.unit.workflows.packages import load
from workers.steps.run_chat import answers_by_question, ui_responses_of


def trigger(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "type": "schedule", "every": "1h", "apps": ["acme"], **fields}


def test_a_run_has_the_answers_of_its_own_trigger(tmp_path: Path) -> None:
    answers = {"approve": {"verdict": "yes"}}
    package = load(tmp_path / "P", triggers=[trigger("nightly", ui_responses=answers), trigger("weekly")])

    fired = [("schedule", "nightly"), ("schedule", "weekly"), ("schedule", "by-hand"), ("api", "nightly")]
    found = [ui_responses_of(package, {"trigger": {"type": type_, "name": name}}) for type_, name in fired]

    assert found == [answers, {}, {}, {}]  # the last was started over HTTP under its name


def test_the_runs_own_values_win_over_a_namesake_of_the_package(tmp_path: Path) -> None:
    package = load(tmp_path / "P", triggers=[trigger("nightly", ui_responses={"approve": {"verdict": "yes"}})])
    named = {"trigger": {"type": "schedule", "name": "nightly"}}

    assert ui_responses_of(package, {**named, "ui_responses": {"approve": {"verdict": "no"}}}) == {
        "approve": {"verdict": "no"}
    }
    assert ui_responses_of(package, {**named, "ui_responses": {}}) == {}


def test_an_answer_belongs_to_the_question_that_it_names() -> None:
    """A question of an older version has no id, so its answer fits no question of the resumed run."""
    old = [{"message": "yes"}, {"responses": {"Card": {}}, "question": {"kind": "tool", "tool": "Card"}}]
    new = {"responses": {"Card": {"ok": True}}, "question": {"kind": "tool", "id": "q_1"}}

    assert answers_by_question(
        {"answers": [*old, new, {"message": "x", "question": {"kind": "message", "id": "q_2"}}]}
    ) == {"q_1": new}
