"""A person's message becomes a turn of `user`, and the rules of `user` route it."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.workflows.chats import Chat, ChatRecorder, build_chat
from tests.unit.workflows.packages import ORCHESTRATOR, load, rule, write_tool
from workflows.chat.history.checkpoint import Checkpoint
from workflows.chat.history.messages import build_messages, to_history
from workflows.chat.history.transcript import Turn
from workflows.chat.limits.repetitions import count_turns_in_a_row
from workflows.chat.questions.user_turn import open_questions
from workflows.context.redaction import Redactor
from workflows.outcome import Outcome, OutcomeKind

HUMAN = {**ORCHESTRATOR, "human_in_the_loop": True}
RULES_ASKING_ONCE = [rule("A", "user"), rule("B", "terminate")]
DEFAULT: dict[str, Any] = {"default": {"text": "ok"}}


def chat(folder: Path, rules: Any, *, answers: Any = None, orchestrator: Any = None, **files: Any) -> Chat:
    package = load(folder, orchestrator=orchestrator or HUMAN, handoffs={"handoff_rules": rules}, **files)
    assert not package.is_refused, package.findings
    return Chat(build_chat(package, answers or DEFAULT, folder))


def reopened_turn(recorder: ChatRecorder) -> ChatRecorder:
    """Returns the checkpoint of an answered run, without its outcome."""
    last = recorder.checkpoint(len(recorder.saved))
    open_again = ChatRecorder(recorder.saved[:-1], recorder.calls)
    going_on = Checkpoint(last.turns, last.context, last.next_agent, last.counters, None)
    open_again.saved.append(json.dumps(going_on.as_json()))
    return open_again


async def give_answer(asking: Chat, text: str, recorder: ChatRecorder | None = None) -> tuple[Outcome, ChatRecorder]:
    """Answers a resting chat and continues it."""
    if recorder is None:
        outcome, recorder = await asking.run()
        assert outcome.kind is OutcomeKind.NEEDS_HUMAN
    asking.answer = text
    outcome, recorder = await asking.run(reopened_turn(recorder))
    asking.answer = None
    return outcome, recorder


async def test_the_rules_of_user_choose_the_next_agent(tmp_path: Path) -> None:
    outcome, kept = await give_answer(chat(tmp_path, [*RULES_ASKING_ONCE, rule("user", "B")]), "take the blue one")

    assert outcome.kind is OutcomeKind.COMPLETED
    assert kept.speakers == ["A", "user", "B"]
    said = kept.turn(2)
    assert (said.text, said.handoff, said.events, said.tokens) == (
        "take the blue one",
        "B",
        [],
        {"input": 0, "output": 0},
    )


async def test_agents_see_an_answer_as_a_message_of_the_user(tmp_path: Path) -> None:
    asking = chat(tmp_path, [*RULES_ASKING_ONCE, rule("user", "B")])
    await give_answer(asking, "take the blue one")

    assert asking.last is not None
    _, question = to_history(build_messages("B", "Begin.", asking.last.turns[:2]))
    assert question == "take the blue one"


async def test_without_a_rule_the_agent_that_asked_goes_on(tmp_path: Path) -> None:
    rules = [rule("A", "terminate", "${done} == true"), rule("A", "user")]
    state = {"type": "agent_text", "agent": "A", "match": {"equals": "thanks"}}
    done = {"type": "boolean", "source": {"type": "state", "default": False, "triggers": [state]}}
    answers = {"answers": {"A": [{"text": "which?"}, {"text": "thanks"}]}}
    asking = chat(tmp_path, rules, answers=answers, context_variables={"definitions": {"done": done}})
    asking.context = {"done": False}

    outcome, kept = await give_answer(asking, "blue")

    assert outcome.kind is OutcomeKind.COMPLETED
    assert kept.speakers == ["A", "user", "A"]


async def test_derived_variables_see_the_users_text_before_its_rules_run(tmp_path: Path) -> None:
    state = {"type": "user_text", "match": {"regex": "colou?r is ([a-z]+)"}}
    transition = {"to": "$1", "trigger": state}
    colour = {"type": "string", "source": {"type": "state", "default": "", "transitions": [transition]}}
    rules = [*RULES_ASKING_ONCE, rule("user", "B", "${colour} == 'blue'"), rule("user", "terminate")]
    asking = chat(tmp_path, rules, context_variables={"definitions": {"colour": colour}})
    asking.context = {"colour": ""}

    _, kept = await give_answer(asking, "the color is blue")

    assert kept.turn(2).context_changes == {"colour": "blue"}
    assert kept.speakers == ["A", "user", "B"]


async def test_a_rule_of_user_may_end_the_chat_and_the_end_is_kept(tmp_path: Path) -> None:
    asking = chat(tmp_path, [*RULES_ASKING_ONCE, rule("user", "terminate", termination_reason="said")])

    outcome, kept = await give_answer(asking, "no, thanks")
    again, later = await asking.run(kept)  # its worker was lost before it wrote that

    assert outcome == again == Outcome(OutcomeKind.COMPLETED, "said")
    assert later.speakers == ["A", "user"]


async def test_a_chat_may_ask_again_and_again(tmp_path: Path) -> None:
    """Many more answers than a chat may repeat itself: a person's answer is progress."""
    asking = chat(tmp_path, [rule("A", "user")])

    outcome, kept = await give_answer(asking, "no")
    for _ in range(12):
        assert outcome.kind is OutcomeKind.NEEDS_HUMAN
        outcome, kept = await give_answer(asking, "no", kept)

    assert kept.speakers == ["A", "user"] * 13 + ["A"]


async def test_a_persons_answer_is_no_turn_of_an_agent(tmp_path: Path) -> None:
    asking = chat(tmp_path, [*RULES_ASKING_ONCE, rule("user", "B")], orchestrator={**HUMAN, "max_turns": 2})

    outcome, kept = await give_answer(asking, "go")

    assert (outcome.kind, kept.speakers) == (OutcomeKind.COMPLETED, ["A", "user", "B"])


async def test_an_agent_that_asks_before_it_speaks_speaks_when_it_is_answered(tmp_path: Path) -> None:
    """Its rule still holds: otherwise it would ask for ever."""
    pre = rule("B", "user", "${app} == 'acme'", condition_scope="pre")
    asking = chat(tmp_path, [rule("A", "B"), pre, rule("B", "terminate")])
    asking.context = {"app": "acme"}

    outcome, kept = await give_answer(asking, "go")

    assert (outcome.kind, kept.speakers) == (OutcomeKind.COMPLETED, ["A", "user", "B"])


async def test_a_question_carries_the_agents_last_text(tmp_path: Path) -> None:
    asking = chat(tmp_path, RULES_ASKING_ONCE, answers={"answers": {"A": [{"text": "Blue or red?"}]}})

    outcome, _ = await asking.run()

    assert asking.last is not None
    [question] = open_questions(asking.last, outcome)
    asked = question.as_document()
    assert asked.pop("id").startswith("q_")
    assert asked == {"kind": "message", "agent": "A", "turn": 1, "text": "Blue or red?"}
    assert open_questions(asking.last, Outcome(OutcomeKind.COMPLETED, "done")) == ()


RULES_ASKING = "from workflows.tools import use_ui_tool\n"
WATCHED = {
    "definitions": {
        "verdict": {
            "type": "string",
            "source": {
                "type": "state",
                "default": "",
                "triggers": [{"type": "ui_response", "tool": "Card", "response_key": "verdict"}],
            },
        }
    }
}


async def run_asking_tool(folder: Path, payload: str, *, tools: int = 1, redactor: Redactor | None = None) -> Chat:
    names = [f"t{number}" for number in range(tools)]
    card = "'Card' if name == 't0' else name"
    source = RULES_ASKING + "".join(
        f"async def {name}():\n    name = '{name}'\n    return await use_ui_tool({card}, {payload})\n" for name in names
    )
    write_tool(folder, "t.py", source)
    entries = [{"agent": "A", "file": "t.py", "function": name} for name in names]
    answers = {"answers": {"A": [{"tool_calls": [{"name": name} for name in names]}, {"text": "went on"}]}}
    package = load(folder, tools=entries, context_variables=WATCHED)
    asking = Chat(build_chat(package, answers, folder), {"verdict": ""}, redactor=redactor or Redactor())
    outcome, _ = await asking.run()
    assert outcome.kind is OutcomeKind.NEEDS_HUMAN
    return asking


async def test_a_tools_question_has_its_text_and_the_expected_keys(tmp_path: Path) -> None:
    asking = await run_asking_tool(tmp_path, "{'title': 'Refund?', 'amount': 12}")

    [question] = asking.questions()
    asked = question.as_document()
    assert asked.pop("id").startswith("q_")
    assert set(asked.pop("digests")) == {"arguments", "payload"}
    assert asked == {
        "kind": "tool",
        "agent": "A",
        "turn": 1,
        "text": "t0 waits for a person",
        "tool": "Card",
        "function": "t0",
        "arguments": {},
        "payload": {"title": "Refund?", "amount": 12},
        "keys": ["verdict"],
        "position": "1.1",
    }


async def test_a_question_is_bounded_and_without_what_is_hidden(tmp_path: Path) -> None:
    hiding = Redactor(["hunter2hunter2"])
    asking = await run_asking_tool(tmp_path, "{'a': 'hunter2hunter2', 'b': 'x' * 100_000}", redactor=hiding)

    [question] = asking.questions()
    shown = question.as_document()["payload"]
    assert shown.startswith('{"a": "(hidden)", "b": "xxx')
    assert len(shown) < 17_000


async def test_waiting_calls_of_one_reply_are_one_question_each_in_reply_order(tmp_path: Path) -> None:
    asking = await run_asking_tool(tmp_path, "{}", tools=3)

    questions = asking.questions()
    assert [(each.tool, each.position) for each in questions] == [("Card", "1.1"), ("t1", "1.2"), ("t2", "1.3")]
    for question in questions:
        asking.give(question, {"verdict": "yes"})
    outcome, kept = await asking.run()
    assert outcome.kind is OutcomeKind.COMPLETED
    assert kept.context(1)["verdict"] == "yes"


@pytest.mark.parametrize("moment", ["on_start", "before_chat"])
async def test_a_step_before_the_first_turn_can_be_answered(tmp_path: Path, moment: str) -> None:
    source = (
        f"{RULES_ASKING}async def ask(context_variables):\n    context_variables['who'] = await use_ui_tool('Who')\n"
    )
    write_tool(tmp_path, "s.py", source)
    step = {"trigger": moment, "file": "s.py", "function": "ask"}
    asking = Chat(build_chat(load(tmp_path, tools={"tools": [], "lifecycle_tools": [step]}), DEFAULT, tmp_path))

    outcome, kept = await asking.run()
    assert (outcome.kind, kept.saved) == (OutcomeKind.NEEDS_HUMAN, [])
    [question] = asking.questions()
    assert (question.tool, question.turn) == ("Who", 0)
    asking.ui_responses = {"Who": {"name": "Ann"}}
    outcome, kept = await asking.run()

    assert outcome.kind is OutcomeKind.COMPLETED
    assert kept.turn(1).context_changes["who"] == {"name": "Ann"}


def test_a_turn_of_the_user_counts_for_no_agent_in_a_row() -> None:
    assert count_turns_in_a_row([Turn("A", "a"), Turn("user", "go on"), Turn("A", "b")], "A") == 1
