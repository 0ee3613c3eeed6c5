"""Structured replies: read as meant, repaired once, refused with a reason."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.workflows.chat.agents.test_output_models import fields, model_named
from tests.unit.workflows.chats import Chat, build_chat
from tests.unit.workflows.packages import load, rule
from workflows.chat.agents.output_models import ReplyMismatch
from workflows.chat.model_call.structured_replies import MAX_OBJECT_STARTS, parse_reply
from workflows.context.redaction import Redactor
from workflows.outcome import OutcomeKind
from workflows.package.normal_form.structured_outputs import ListOf, Scalar

GOOD = '{"refund": true, "why": "broken"}'
BAD = '{"refund": "perhaps"}'
VERDICT = {
    "type": "model",
    "fields": {"refund": {"type": "bool"}, "why": {"type": "str"}, "note": {"type": "optional_str"}},
}
TREE = {"type": "model", "fields": {"v": {"type": "int"}, "kids": {"type": "list", "items": "Tree"}}}
OPEN = {"type": "model", "fields": {"facts": {"type": "dict"}}}
MODELS = {"Verdict": VERDICT, "Tree": TREE, "Open": OPEN, "Names": {"type": "list", "items": "str"}}
RULES = [rule("A", "B"), rule("B", "terminate")]


def structured_chat(folder: Path, *answers: Any, model: str = "Verdict", rules: list[Any] | None = None) -> Chat:
    entries = [{"text": each} if isinstance(each, str) else each for each in answers]
    package = load(
        folder,
        structured_outputs={"models": MODELS, "registry": {"A": model}},
        handoffs={"handoff_rules": rules or RULES},
    )
    assert not [each for each in package.findings if each.level == "error" or each.is_blocking], package.findings
    return Chat(build_chat(package, {"answers": {"A": entries}, "default": {"text": "Well."}}, folder))


WRAPPED = [
    GOOD,
    f"\n  {GOOD}\n",
    f"```json\n{GOOD}\n```",
    f"```\n{GOOD}\n```",
    f"```json\r\n{GOOD}\r\n```\r\n",
    f"Not ```this```, but\n  ```json \n{GOOD}\n  ``` \n```text\nand so on",
    f"Here it is:\n\n```json\n{GOOD}\n```\nI hope it helps.",
    f"Here it is: {GOOD} I hope it helps.",
    f"Given the {{facts}}, I say {GOOD}",
    '{"refund": true, "why": "it said {no}"}',
    '{"refund": true, "why": "broken", "confidence": 0.9}',
    '{"refund": "true", "why": "broken"}',
]


@pytest.mark.parametrize("text", WRAPPED)
async def test_an_answer_that_is_clear_is_taken_without_asking_again(tmp_path: Path, text: str) -> None:
    outcome, kept = await structured_chat(tmp_path / "p", text).run()

    assert outcome.kind is OutcomeKind.COMPLETED, outcome
    assert [call.agent for call in kept.calls] == ["A", "B"]
    assert json.loads(kept.turn(1).text)["refund"] in (True, "true")


UNCLEAR = [
    "",
    "No.",
    BAD,
    f"{GOOD} or {GOOD}",
    f"[{GOOD}]",
    f"```\n{GOOD}\n```\nor\n```\n{BAD}\n```",
    GOOD[:-1],
    "null",
]


@pytest.mark.design("D4-29")
@pytest.mark.parametrize("text", UNCLEAR[1:])
async def test_an_answer_that_does_not_fit_is_asked_for_once_more(tmp_path: Path, text: str) -> None:
    outcome, kept = await structured_chat(tmp_path / "p", text, GOOD).run()

    assert outcome.kind is OutcomeKind.COMPLETED, outcome
    assert [call.agent for call in kept.calls] == ["A", "A", "B"]
    assert kept.turn(1).text == GOOD
    assert [event["text"] for event in kept.turn(1).events] == [text, GOOD]


@pytest.mark.design("D4-29", "D5-16")
async def test_one_that_does_not_fit_again_ends_the_chat_for_good(tmp_path: Path) -> None:
    outcome, kept = await structured_chat(tmp_path / "p", BAD, BAD, GOOD).run()

    assert (outcome.kind, outcome.transient) == (OutcomeKind.MODEL_ERROR, False)
    assert outcome.error is not None
    assert (outcome.error.agent, outcome.error.turn) == ("A", 1)
    assert outcome.reason == (
        "the answer of A does not fit its model Verdict, also after a second attempt: "
        "refund: Input should be a valid boolean, "
        "unable to interpret input; why: Field required"
    )
    assert [call.ok for call in kept.calls] == [True, True]
    assert kept.turns == []


async def test_a_hand_over_needs_no_answer(tmp_path: Path) -> None:
    rules = [rule("A", "B", "When nothing is known", condition_type="string_llm"), *RULES]
    call = {"tool_calls": [{"name": "transfer_to_B"}]}

    for entries in ([call], [BAD, call]):
        outcome, kept = await structured_chat(tmp_path / str(len(entries)), *entries, rules=rules).run()

        assert outcome.kind is OutcomeKind.COMPLETED, outcome
        assert (kept.turn(1).text, kept.turn(1).handoff) == ("", "B")


async def test_a_recursive_answer_is_read(tmp_path: Path) -> None:
    text = '{"v": 1, "kids": [{"v": 2, "kids": []}]}'
    outcome, kept = await structured_chat(tmp_path / "p", text, model="Tree").run()

    assert outcome.kind is OutcomeKind.COMPLETED, outcome
    assert kept.turn(1).text == text


async def test_a_list_is_an_answer_too_also_in_a_fence(tmp_path: Path) -> None:
    outcome, kept = await structured_chat(tmp_path / "p", 'These:\n```json\n["a"]\n```', model="Names").run()

    assert outcome.kind is OutcomeKind.COMPLETED, outcome
    assert kept.turn(1).text == '["a"]'


async def test_hidden_values_are_not_shown_in_what_does_not_fit(tmp_path: Path) -> None:
    values = {"Verdict": {"type": "model", "fields": {"refund": {"type": "literal", "values": ["s3cr3t-value"]}}}}
    package = load(tmp_path / "p", structured_outputs={"models": values, "registry": {"A": "Verdict"}})
    answers = {"default": {"text": '{"refund": "no"}'}}
    chat = Chat(build_chat(package, answers, tmp_path / "p"), redactor=Redactor(["s3cr3t-value"]))

    outcome, _ = await chat.run()

    assert "(hidden)" in outcome.reason
    assert "s3cr3t" not in outcome.reason


async def test_a_chat_goes_on_from_the_checkpoint_after_a_repaired_answer(tmp_path: Path) -> None:
    chat = structured_chat(tmp_path / "p", BAD, GOOD, '{"refund": false, "why": "late"}', rules=[rule("A", "A")])
    stops = iter([False, True])
    first, kept = await chat.run(stopping=lambda: next(stops))
    assert first.kind is OutcomeKind.HANDED_BACK

    stops = iter([False, True])
    _, kept = await chat.run(kept, stopping=lambda: next(stops))

    assert [turn.text for turn in kept.turns] == [GOOD, '{"refund": false, "why": "late"}']


def test_a_text_of_braces_or_of_fences_is_soon_given_up() -> None:
    answer = model_named({"M": fields(a=Scalar("int"))}, "M")
    for text in ("{" * 200_000, "```json\n" * 100_000, '{"a":' * 100_000, '{"a": {' * MAX_OBJECT_STARTS + '} {"a": 1}'):
        with pytest.raises(ReplyMismatch):
            parse_reply(answer, text)


def test_numbers_that_are_too_long_are_no_accident() -> None:
    answer = model_named({"M": ListOf(Scalar("int"))}, "M")
    with pytest.raises(ReplyMismatch):
        parse_reply(answer, f'so: {{"a": {"9" * 10_000}}}')
