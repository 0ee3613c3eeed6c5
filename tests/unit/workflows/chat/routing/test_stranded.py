"""Stranded runs: a chat ends after an agent whose conditions never held."""

from pathlib import Path
from typing import Any, get_args

import pytest

from tests.unit.workflows.chats import Chat, ChatRecorder, build_chat
from tests.unit.workflows.packages import ORCHESTRATOR, load, rule
from workflows.outcome import Outcome, OutcomeKind, is_success
from workflows.package.normal_form.package_model import Pattern

NEVER, JUDGED = "${x} == 'never'", {"condition_type": "string_llm"}
# A answers "go" in its first turn only, so that the variable holds for one hand-off.
SET_BY_TEXT = {
    "context_variables": {
        "definitions": {
            "go": {
                "type": "boolean",
                "default": False,
                "source": {
                    "type": "state",
                    "transitions": [
                        {"to": True, "trigger": {"type": "agent_text", "agent": "A", "match": {"equals": "go"}}},
                        {"to": False, "trigger": {"type": "agent_text", "agent": "A", "match": {"equals": "stop"}}},
                    ],
                },
            }
        }
    }
}
TOOL_TEXT = {"A": [{"text": "go"}, {"text": "stop"}]}


def playing(folder: Path, *rules: Any, answers: Any = None, **orchestrator: Any) -> Chat:
    package = load(
        folder,
        orchestrator={**ORCHESTRATOR, **orchestrator},
        agents=[{"name": name} for name in "ABC"],
        handoffs={"handoff_rules": list(rules)},
        context_variables=SET_BY_TEXT,
    )
    assert not package.is_refused, package.findings
    made = build_chat(package, {"answers": answers or {}, "default": {"text": "ok"}}, folder)
    return Chat(made, {"go": False}, fixed={"run_id": "run_1"})


@pytest.mark.parametrize(
    ("rules", "answers", "speakers", "stranded"),
    [
        pytest.param([rule("A", "B", NEVER)], {}, "A", True, id="never"),
        pytest.param([rule("A", "B"), rule("B", "C", NEVER)], {}, "AB", True, id="never, of a later agent"),
        pytest.param([rule("A", "B"), rule("C", "A", NEVER)], {}, "AB", False, id="an agent without rules"),
        pytest.param([rule("A", "B", "it is ready", **JUDGED)], {}, "A", True, id="a model never judges so"),
        pytest.param([rule("A", "B", "${go}"), rule("B", "A")], TOOL_TEXT, "ABA", False, id="a loop that was left"),
        pytest.param(
            [rule("A", "B", "${go}"), rule("A", "C", NEVER), rule("B", "A")],
            TOOL_TEXT,
            "ABA",
            False,
            id="one of two held",
        ),
        pytest.param(
            [rule("A", "B", "${go}"), rule("B", "C"), rule("C", "B", NEVER)],
            TOOL_TEXT,
            "ABC",
            True,
            id="another agent's condition held",
        ),
        pytest.param(
            [rule("A", "B", "it is ready", **JUDGED), rule("B", "A")],
            {"A": [{"tool_calls": [{"name": "transfer_to_B"}]}, {"text": "done"}]},
            "ABA",
            False,
            id="a model judged so once",
        ),
        pytest.param([rule("A", "B", NEVER, condition_scope="pre")], {}, "A", True, id="never before its reply"),
        pytest.param(
            [rule("A", "B"), rule("B", "C", "${go}", condition_scope="pre"), rule("C", "A")],
            TOOL_TEXT,
            "ACAB",
            False,
            id="held before its reply",
        ),
    ],
)
async def test_a_run_is_stranded_where_no_condition_of_its_last_agent_held(
    tmp_path: Path, rules: list[Any], answers: Any, speakers: str, *, stranded: bool
) -> None:
    outcome, kept = await playing(tmp_path, *rules, answers=answers).run()

    assert (outcome.kind, "".join(kept.speakers)) == (OutcomeKind.NO_TRANSITION, speakers)
    words = f"no rule of {speakers[-1]} applies"
    assert outcome.stranded is stranded
    assert outcome.reason == (f"{words}; none of its conditions held in this run" if stranded else words)
    assert is_success(outcome, pattern="DefaultPattern")


async def test_a_resumed_run_is_stranded_all_the_same(tmp_path: Path) -> None:
    chat = playing(tmp_path, rule("A", "B"), rule("B", "C", NEVER))
    outcome, kept = await chat.run()

    again = [await chat.run(ChatRecorder(kept.saved[:number])) for number in range(3)]

    assert [each for each, _ in again] == [outcome] * 3
    assert kept.checkpoint(2).final_outcome == outcome


async def test_rules_of_user_that_never_hold_strand_a_run(tmp_path: Path) -> None:
    outcome, kept = await playing(tmp_path, rule("user", "A", NEVER), initial_agent="user").run()

    assert (outcome.kind, outcome.stranded, kept.speakers) == (OutcomeKind.NO_TRANSITION, True, [])


@pytest.mark.parametrize("pattern", get_args(Pattern))
async def test_a_pattern_that_goes_on_by_itself_strands_no_run(tmp_path: Path, pattern: str) -> None:
    chat = playing(tmp_path, rule("A", "B", NEVER), orchestration_pattern=pattern, max_turns=2)
    outcome, _ = await chat.run()

    stops = pattern in {"DefaultPattern", "Pipeline", "ag2_network"}
    assert (outcome.kind is OutcomeKind.NO_TRANSITION, outcome.stranded) == (stops, stops)


def test_only_a_stranded_outcome_has_the_field() -> None:
    """Older versions wrote none and ignore it."""
    plain = Outcome(OutcomeKind.NO_TRANSITION, "no rule of A applies")
    stranded = Outcome(OutcomeKind.NO_TRANSITION, "no rule of A applies", stranded=True)

    assert plain.as_document() == {"kind": "no_transition", "reason": "no rule of A applies", "error": None}
    assert stranded.as_document() == {**plain.as_document(), "stranded": True}
    assert [Outcome.from_document(each.as_document()) for each in (plain, stranded)] == [plain, stranded]
    assert stranded.with_texts(str.upper).stranded
