"""An answer belongs to one call: its arguments, its turn and its ordinal."""

from pathlib import Path

import pytest

from tests.unit.workflows.chat.questions.test_approvals import call
from tests.unit.workflows.chat.questions.test_open_turns import YES, answer_until_end, desk, done_calls
from tests.unit.workflows.packages import rule
from workflows.outcome import OutcomeKind

ASK = """
import asyncio

async def pay(amount: int):
    await asyncio.sleep(0.02 if amount == 1 else 0)
    await use_ui_tool("Approve")
    DONE.append(amount)

async def both(amount: int):
    await asyncio.gather(*(use_ui_tool("Approve") for _ in range(2)))
    DONE.append(amount)
"""


async def test_an_answer_is_for_its_arguments_also_when_nothing_else_is_shown(tmp_path: Path) -> None:
    """The turn is repeated, as after a crash, and the model calls with another amount."""
    chat = desk(tmp_path / "one", ASK, [{"tool_calls": [call("pay", amount=12)]}], "pay")
    await chat.run()
    chat.give(chat.questions()[0], YES)
    again = desk(tmp_path / "two", ASK, [{"tool_calls": [call("pay", amount=9_000)]}], "pay")
    again.answers = chat.answers
    outcome, _ = await again.run()

    assert (outcome.kind, done_calls(again)) == (OutcomeKind.NEEDS_HUMAN, [])
    assert again.questions()[0].arguments == {"amount": 9_000}


async def test_an_answer_is_for_its_turn(tmp_path: Path) -> None:
    replies = [{"tool_calls": [call("pay", amount=2)]}, {"text": "ok"}] * 2
    chat = desk(tmp_path, ASK, replies, "pay", handoffs={"handoff_rules": [rule("A", "B"), rule("B", "A")]})
    _, kept = await chat.run()
    chat.give(chat.questions()[0], YES)
    outcome, kept = await chat.run(kept)

    assert (outcome.kind, kept.speakers, done_calls(chat)) == (OutcomeKind.NEEDS_HUMAN, ["A", "B"], [2])
    assert chat.questions()[0].turn == 3


async def test_a_call_that_asks_the_same_twice_needs_two_answers(tmp_path: Path) -> None:
    chat = desk(tmp_path, ASK, [{"tool_calls": [call("both", amount=1)]}, {"text": "ok"}], "both")
    _, kept = await chat.run()
    first, second = chat.questions()
    chat.give(first, YES)
    outcome, kept = await chat.run(kept)

    assert (outcome.kind, chat.questions(), done_calls(chat)) == (OutcomeKind.NEEDS_HUMAN, [second], [])


async def test_questions_stand_as_the_model_wrote_the_calls(tmp_path: Path) -> None:
    chat = desk(tmp_path, ASK, [{"tool_calls": [call("pay", amount=amount) for amount in (1, 2)]}], "pay")
    await chat.run()

    assert [each.position for each in chat.questions()] == ["1.1", "1.2"]


OWN_TENANT = """
async def pay(amount: int, app_id: str, **runtime):
    await use_ui_tool("Approve", {"amount": amount})
    DONE.append((amount, app_id))
    return app_id
"""


async def test_dropped_arguments_are_in_no_question_and_change_no_answer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The turn is repeated, and the model omits an argument that the run supplies."""
    caplog.set_level("INFO")
    sent = call("pay", amount=2, app_id="globex-secret", run_id=7)
    chat = desk(tmp_path / "one", OWN_TENANT, [{"tool_calls": [sent]}, {"text": "ok"}], "pay")
    chat.fixed = {"run_id": "run_1", "app_id": "acme"}
    _, kept = await chat.run()
    [question] = chat.questions()
    chat.give(question, YES)
    outcome, _ = await chat.run(kept)
    again = desk(tmp_path / "two", OWN_TENANT, [{"tool_calls": [call("pay", amount=2)]}, {"text": "ok"}], "pay")
    again.fixed, again.answers = chat.fixed, chat.answers
    repeated, _ = await again.run()

    assert question.arguments == {"amount": 2}
    assert (outcome.kind, done_calls(chat)) == (OutcomeKind.COMPLETED, [(2, "acme")])
    assert (repeated.kind, done_calls(again)) == (OutcomeKind.COMPLETED, [(2, "acme")])
    dropped = next(each for each in caplog.records if each.getMessage() == "injected_arguments_dropped")
    assert vars(dropped)["names"] == ["app_id", "run_id"]
    assert "globex-secret" not in caplog.text + str(list(map(vars, caplog.records)))


WORST = {
    "swallows": """
async def pay(amount: int, context_variables):
    context_variables.setdefault("log", []).append(amount)
    try:
        answer = await use_ui_tool("Approve", {"amount": amount})
    except BaseException:
        return "paid anyway"
    DONE.append(amount)
    return "paid"
""",
    "own loop in a thread": """
import asyncio
def pay(amount: int, context_variables):
    context_variables["log"] = [*context_variables.get("log", []), amount]
    answer = asyncio.run(use_ui_tool("Approve", {"amount": amount}))
    DONE.append(amount)
    return "paid"
""",
    "asks twice at once": """
import asyncio
async def pay(amount: int, context_variables):
    context_variables["log"] = [*context_variables.get("log", []), amount]
    await asyncio.gather(*(use_ui_tool("Approve", {"amount": amount}) for _ in range(2)))
    DONE.append(amount)
    return "paid"
""",
    "a generator": """
async def pay(amount: int, context_variables):
    context_variables["log"] = [*context_variables.get("log", []), amount]
    answer = await use_ui_tool("Approve", {"amount": amount})
    DONE.append(amount)
    yield "paid"
""",
}


@pytest.mark.parametrize("source", WORST.values(), ids=WORST)
@pytest.mark.parametrize("standing", [False, True])
async def test_whatever_way_a_call_asks_it_acts_once_and_on_its_own_answer(
    tmp_path: Path, source: str, *, standing: bool
) -> None:
    replies = [{"tool_calls": [call("pay", amount=1), call("pay", amount=2)]}, {"text": "ok"}]
    chat = desk(tmp_path, source, replies, "pay")
    chat.context = {**chat.context, "log": []}
    if standing:
        chat.ui_responses = {"Approve": [{"when": "payload.amount == `2`", "answer": YES}]}
    outcome, kept = await answer_until_end(chat)
    assert outcome.kind is OutcomeKind.COMPLETED
    assert sorted(done_calls(chat)) == [1, 2]
    texts = [each["text"] for event in kept.turn(1).events for each in event.get("tool_results", ())]
    assert ["anyway" not in each and "paid" in each for each in texts] == [True, True]
    assert len(kept.turn(1).context_changes["log"]) == 1
