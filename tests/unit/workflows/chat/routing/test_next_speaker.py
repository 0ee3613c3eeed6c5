"""The next speaker: the choice of each pattern where no rule applies."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.unit.workflows.chats import Chat, ChatRecorder, build_chat
from tests.unit.workflows.packages import ORCHESTRATOR, load, rule
from workflows.chat.providers.script import ScriptClient
from workflows.chat.routing.speaker_manager import MAX_SHOWN_CONVERSATION, MAX_TURN_TEXT, find_choice
from workflows.context.redaction import Redactor
from workflows.outcome import Outcome, OutcomeKind
from workflows.package.normal_form.package_model import USER

COMPLETED, NO_TRANSITION, MAX_TURNS = OutcomeKind.COMPLETED, OutcomeKind.NO_TRANSITION, OutcomeKind.MAX_TURNS
CHOOSING = ["RoundRobinPattern", "RandomPattern", "AutoPattern"]


def chat(
    folder: Path, pattern: str, *rules: Any, answers: Any = None, agents: str = "ABC", **orchestrator: Any
) -> Chat:
    written = {**ORCHESTRATOR, "orchestration_pattern": pattern, "max_turns": 6, **orchestrator}
    checked = load(
        folder,
        orchestrator=written,
        agents=[
            {"name": name, "description": f"knows {name}", "system_message": f"You are {name}."} for name in agents
        ],
        handoffs={"handoff_rules": list(rules)} if rules else None,
    )
    assert not checked.is_refused, checked.findings
    made = build_chat(checked, {"answers": answers or {}, "default": {"text": "ok"}}, folder)
    return Chat(made, {"app_id": "acme", "chat_id": "run_1"})


def managed_answers(*texts: str) -> dict[str, Any]:
    return {"group_manager": [{"text": text} for text in texts]}


async def run(chat: Chat) -> tuple[OutcomeKind, str]:
    outcome, kept = await chat.run()
    return outcome.kind, "".join(kept.speakers)


@pytest.mark.parametrize(
    ("pattern", "rules", "expected"),
    [
        ("DefaultPattern", [], (COMPLETED, "A")),
        ("DefaultPattern", [rule("A", "B")], (NO_TRANSITION, "AB")),
        ("ag2_network", [], (COMPLETED, "A")),
        ("ag2_network", [rule("A", "B")], (NO_TRANSITION, "AB")),
        ("RoundRobinPattern", [], (MAX_TURNS, "ABCABC")),
        ("RoundRobinPattern", [rule("B", "A", "True"), rule("C", "terminate")], (MAX_TURNS, "ABABAB")),
        ("RoundRobinPattern", [rule("B", "A", "False"), rule("C", "terminate")], (COMPLETED, "ABC")),
        ("Pipeline", [], (COMPLETED, "ABC")),
        ("Pipeline", [rule("A", "C")], (COMPLETED, "AC")),
        ("Pipeline", [rule("B", "A", "${x}")], (NO_TRANSITION, "AB")),
        ("Pipeline", [rule("C", "terminate")], (COMPLETED, "ABC")),
    ],
)
async def test_the_next_agent_where_no_rule_applies(
    tmp_path: Path, pattern: str, rules: list[Any], expected: tuple[OutcomeKind, str]
) -> None:
    assert await run(chat(tmp_path, pattern, *rules)) == expected


@pytest.mark.parametrize("pattern", [*CHOOSING, "Pipeline", "DefaultPattern", "ag2_network"])
async def test_rules_come_first_in_every_pattern(tmp_path: Path, pattern: str) -> None:
    rules = [rule("A", "C"), rule("C", "B"), rule("B", "terminate")]
    playing = chat(tmp_path, pattern, *rules)

    outcome, kept = await playing.run()

    assert (outcome.kind, "".join(kept.speakers)) == (COMPLETED, "ACB")
    assert {call.agent for call in kept.calls} == set("ABC")  # no manager was called


async def test_the_order_begins_with_the_speaker_and_goes_round(tmp_path: Path) -> None:
    assert await run(chat(tmp_path, "RoundRobinPattern", initial_agent="C", max_turns=4)) == (MAX_TURNS, "CABC")
    assert await run(chat(tmp_path / "p", "Pipeline", initial_agent="B")) == (COMPLETED, "BC")


async def test_an_only_agent_has_no_other_to_hand_to(tmp_path: Path) -> None:
    expected = {"RoundRobinPattern": (MAX_TURNS, "AAA"), "RandomPattern": (MAX_TURNS, "AAA")}
    for pattern in [*CHOOSING, "Pipeline"]:
        alone = chat(tmp_path / pattern, pattern, agents="A", max_turns=3)
        assert await run(alone) == expected.get(pattern, (COMPLETED, "A"))


async def test_chance_is_that_of_the_chat_and_never_the_same_twice(tmp_path: Path) -> None:
    playing = chat(tmp_path, "RandomPattern", max_turns=12)
    outcome, kept = await playing.run()

    assert outcome.kind is MAX_TURNS
    assert set(kept.speakers) == set("ABC")
    for number in (1, 6, 11):
        _, resumed = await playing.run(kept.copy_up_to(number))
        assert resumed.speakers == kept.speakers
    playing.context = {"app_id": "globex", "chat_id": "run_1"}
    _, of_another = await playing.run()
    assert of_another.speakers != kept.speakers
    for each in (kept, of_another):
        assert all(one != other for one, other in pairwise(each.speakers))


async def auto(folder: Path, *texts: str, **parts: Any) -> tuple[Outcome, ChatRecorder]:
    return await chat(folder, "AutoPattern", answers=managed_answers(*texts), **parts).run()


async def test_a_manager_chooses_until_it_ends_the_chat(tmp_path: Path) -> None:
    outcome, kept = await auto(tmp_path, "C", '{"next": "A"}', "A", "terminate")

    assert outcome == Outcome(COMPLETED, "the manager ends the chat")
    assert "".join(kept.speakers) == "ACAA"
    assert [turn.handoff for turn in kept.turns] == ["C", "A", "A", "terminate"]
    assert [call.agent for call in kept.calls].count("group_manager") == 4


async def test_the_choice_is_kept_and_not_asked_for_again(tmp_path: Path) -> None:
    playing = chat(tmp_path, "AutoPattern", answers=managed_answers("C", "B", "terminate"))
    _, kept = await playing.run()

    assert [kept.checkpoint(number).next_agent for number in (1, 2, 3)] == ["C", "B", None]
    _, resumed = await playing.run(kept.copy_up_to(1))

    assert resumed.speakers == kept.speakers
    assert [call.agent for call in resumed.calls] == ["C", "group_manager", "B", "group_manager"]


async def test_an_answer_without_a_name_is_asked_for_once_more(tmp_path: Path) -> None:
    outcome, kept = await auto(tmp_path, "whoever likes to", "B", "terminate")
    assert (outcome.kind, "".join(kept.speakers)) == (COMPLETED, "AB")


@pytest.mark.parametrize("text", ["nobody", "user", "B or C", "{}", "?"])
async def test_a_manager_that_twice_names_no_agent_ends_the_run(tmp_path: Path, text: str) -> None:
    outcome, kept = await auto(tmp_path, text, text)

    assert (outcome.kind, outcome.transient, kept.turns) == (OutcomeKind.MODEL_ERROR, False, [])
    assert "group_manager named no agent" in outcome.reason


async def test_an_error_of_the_manager_is_that_of_a_model(tmp_path: Path) -> None:
    failing = chat(tmp_path, "AutoPattern", answers={"group_manager": [{"error": 503}]})
    outcome, kept = await failing.run()

    assert (outcome.kind, outcome.transient) == (OutcomeKind.MODEL_ERROR, True)
    assert [(call.agent, call.ok) for call in kept.calls] == [("A", True), ("group_manager", False)]


@pytest.fixture
def manager_calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, Any]]:
    """Records prompt, question and schema of every model call."""
    calls: list[tuple[str, str, Any]] = []
    answer = ScriptClient.__call__

    async def note_and_answer(self: ScriptClient, messages: Any, context: Any, **request: Any) -> Any:
        calls.append(("".join(context.prompt), messages[-1].parts[0].content, request["response_schema"]))
        return await answer(self, messages, context, **request)

    monkeypatch.setattr(ScriptClient, "__call__", note_and_answer)
    return calls


async def test_what_the_manager_is_shown(tmp_path: Path, manager_calls: list[tuple[str, str, Any]]) -> None:
    texts = {"A": [{"text": "a" * 30_000}], "B": [{"text": "what B says"}], **managed_answers("B", "terminate")}
    await chat(tmp_path, "AutoPattern", answers=texts).run()

    (_, (prompt, first, schema), _, (_, second, _)) = manager_calls
    assert "- A: knows A\n- B: knows B\n- C: knows C" in prompt
    assert schema.json_schema["properties"]["next"]["enum"] == ["A", "B", "C", "terminate"]
    assert "[user]: Begin." in first
    assert len(first) < 5_000
    assert second.index("[A]: aaa") < second.index("[B]: what B says")
    assert second.endswith("B has spoken last. Who speaks next?")


async def test_a_manager_is_shown_nothing_hidden(tmp_path: Path, manager_calls: list[tuple[str, str, Any]]) -> None:
    made = chat(tmp_path, "AutoPattern", answers=managed_answers("terminate"))
    made.opening, made.redactor = "the secret-value", Redactor(["secret-value", "knows B"])
    await made.run()

    _, (prompt, question, _) = manager_calls
    assert "the (hidden)" in question
    assert "- B: (hidden)" in prompt


async def test_a_manager_is_shown_the_newest_of_a_long_chat_and_no_silent_turn(
    tmp_path: Path, manager_calls: list[tuple[str, str, Any]]
) -> None:
    turns = [{"text": f"{number}" * MAX_TURN_TEXT} for number in range(6)]
    silent = {"tool_calls": [{"name": "transfer_to_B"}]}
    transfer = rule("C", "B", "B is wanted", condition_type="string_llm")
    answers = {"A": turns, "C": [silent], **managed_answers("A", "A", "A", "A", "C", "terminate")}

    await chat(tmp_path, "AutoPattern", transfer, answers=answers, max_turns=7).run()

    question = manager_calls[-1][1]
    assert MAX_SHOWN_CONVERSATION - 2 * MAX_TURN_TEXT < len(question) < MAX_SHOWN_CONVERSATION + 200
    assert question.startswith("[…]")
    assert "[C]" not in question
    assert [str(number) * MAX_TURN_TEXT in question for number in range(5)] == [False, True, True, True, True]


async def test_a_server_that_knows_no_schemas_is_asked_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = ScriptClient.__call__

    class RefusedError(Exception):
        status_code = 400

    async def strict(self: ScriptClient, messages: Any, context: Any, **request: Any) -> Any:
        if request["response_schema"] is not None:
            raise RefusedError
        return await answer(self, messages, context, **request)

    monkeypatch.setattr(ScriptClient, "__call__", strict)
    outcome, kept = await auto(tmp_path, "B", "terminate")

    assert (outcome.kind, "".join(kept.speakers)) == (COMPLETED, "AB")


CHOICES = ("Writer", "Senior-Writer", "web_editor", "terminate")


@pytest.mark.parametrize(
    ("answer", "choice"),
    [
        ("Writer", "Writer"),
        (" **Writer**.\n", "Writer"),
        ('"writer"', "Writer"),
        ("TERMINATE", "terminate"),
        ('{"next": "web_editor"}', "web_editor"),
        ('{"data": "Senior-Writer", "why": "it is done, Writer"}', "Senior-Writer"),
        ('["Writer"]', "Writer"),
        ("I choose Senior-Writer, who knows more.", "Senior-Writer"),
        ("Next: Writer. Then Writer again.", "Writer"),
        ("Writer or web_editor", None),
        ("Ghostwriter", None),
        ("Writers", None),
        ("", None),
        ("{}", None),
        ("[" * 2_000, None),
        (USER, None),
    ],
)
def test_a_managers_answer_is_read_leniently(answer: str, choice: str | None) -> None:
    assert find_choice(answer, CHOICES) == choice
