"""Approvals: a function acts only on what was shown with its answer.

That holds whatever models, people and crashes do.
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.workflows.chats import Chat, ChatRecorder, build_chat
from tests.unit.workflows.packages import load, rule, write_tool
from workflows.chat.questions.question import Question
from workflows.outcome import Outcome, OutcomeKind

PAY = """
from workflows.tools import use_ui_tool

PAID, READ = [], []

async def pay(amount: int, context_variables, turn_idempotency_key: str = ""):
    context_variables["asked"] = context_variables.get("asked", 0) + 1
    answer = await use_ui_tool("Approve", {"amount": amount}, title=f"Pay {amount}?", choices=["yes", "no"])
    if answer["choice"] == "yes":
        PAID.append((turn_idempotency_key, amount, answer["stamp"]))
    context_variables["paid"] = context_variables.get("paid", 0) + amount
    return answer["choice"]

def look_up(n: int, context_variables):
    READ.append(n)
    context_variables["n"] = n
    return f"looked up {n}"
"""
TOOLS = [{"agent": name, "file": "pay.py", "function": tool} for name in "AB" for tool in ("pay", "look_up")]
RULES = {"handoff_rules": [rule("A", "B"), rule("B", "terminate")]}


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


def desk(folder: Path, replies: list[Any], *, rules: Any = None, source: str = PAY) -> Chat:
    """A takes its turns from `replies`, then hands over to B, which ends the chat."""
    write_tool(folder, "pay.py", source)
    package = load(folder, tools=TOOLS, handoffs=rules or RULES)
    assert not package.is_refused, package.findings
    answers = {"answers": {"A": replies, "B": [{"text": "done"}]}}
    return Chat(build_chat(package, answers, folder), {"run_id": "run_1"}, fixed={"run_id": "run_1"})


def module(chat: Chat) -> Any:
    """Returns the package's module, with the records of its tools."""
    tool = next(each for each in chat.built.agents["A"].tools if each.name == "pay")
    return tool._tool.function.__globals__  # type: ignore[attr-defined]  # ours, and not of AG2's interface


def shown_questions(questions: list[Question]) -> list[tuple[Any, ...]]:
    return [(each.position, each.arguments, each.payload, each.title, each.choices, each.keys) for each in questions]


async def test_two_calls_of_one_reply_are_two_questions_with_their_own_answers(tmp_path: Path) -> None:
    chat = desk(tmp_path, [{"tool_calls": [call("pay", amount=10), call("pay", amount=5_000)]}, {"text": "ok"}])
    outcome, kept = await chat.run()

    assert outcome.kind is OutcomeKind.NEEDS_HUMAN
    small, large = chat.questions()
    assert shown_questions([small, large]) == [
        ("1.1", {"amount": 10}, {"amount": 10}, "Pay 10?", ("yes", "no"), ("choice",)),
        ("1.2", {"amount": 5_000}, {"amount": 5_000}, "Pay 5000?", ("yes", "no"), ("choice",)),
    ]
    chat.give(small, {"choice": "yes", "stamp": "a"})
    chat.give(large, {"choice": "no", "stamp": "b"})
    outcome, kept = await chat.run(kept)

    assert outcome.kind is OutcomeKind.COMPLETED
    assert module(chat)["PAID"] == [("run_1:1", 10, "a")]
    assert [len(kept.calls), kept.speakers] == [3, ["A", "B"]]


async def test_equal_calls_of_one_reply_are_questions_of_their_own(tmp_path: Path) -> None:
    chat = desk(tmp_path, [{"tool_calls": [call("pay", amount=10)] * 2}, {"text": "ok"}])
    _, kept = await chat.run()
    first, second = chat.questions()

    chat.give(first, {"choice": "yes", "stamp": "a"})
    outcome, kept = await chat.run(kept)

    assert (outcome.kind, [each.id for each in chat.questions()]) == (OutcomeKind.NEEDS_HUMAN, [second.id])
    assert module(chat)["PAID"] == [("run_1:1", 10, "a")]


async def test_work_before_a_question_is_not_redone_and_is_in_the_turn(tmp_path: Path) -> None:
    replies = [
        {"tool_calls": [call("look_up", n=1)], "usage": {"input": 10, "output": 1}},
        {"tool_calls": [call("look_up", n=2), call("pay", amount=12)], "usage": {"input": 20, "output": 2}},
        {"text": "ok", "usage": {"input": 30, "output": 3}},
    ]
    chat = desk(tmp_path, replies)
    _, kept = await chat.run()
    [question] = chat.questions()
    assert module(chat)["READ"] == [1, 2]

    chat.give(question, {"choice": "yes", "stamp": "a"})
    outcome, kept = await chat.run(kept)

    assert outcome.kind is OutcomeKind.COMPLETED
    assert (module(chat)["READ"], module(chat)["PAID"]) == ([1, 2], [("run_1:1", 12, "a")])
    assert [each.agent for each in kept.calls] == ["A", "A", "A", "B"]
    turn = kept.turn(1)
    texts = [each["text"] for event in turn.events for each in event.get("tool_results", ())]
    assert texts == ["looked up 1", "looked up 2", "yes"]
    assert turn.tokens == {"input": 60, "output": 6}
    assert turn.context_changes == {"n": 2, "asked": 1, "paid": 12}  # a call that waits leaves nothing behind


async def test_a_question_in_other_words_each_time_fails_the_run(tmp_path: Path) -> None:
    worded = PAY.replace('{"amount": amount}', '{"amount": amount, "try": len(TRIES.append(1) or TRIES)}')
    chat = desk(tmp_path, [{"tool_calls": [call("pay", amount=12)]}, {"text": "ok"}], source=f"TRIES = []\n{worded}")
    kept = ChatRecorder()
    for _ in range(2):
        outcome, kept = await chat.run(kept)
        assert outcome.kind is OutcomeKind.NEEDS_HUMAN
        chat.give(chat.questions()[0], {"choice": "yes", "stamp": "a"})
    outcome, kept = await chat.run(kept)

    assert (outcome.kind, outcome.error and outcome.error.type) == (OutcomeKind.TOOL_ERROR, "unstable_question")
    assert "leave times and random values out of the payload" in outcome.reason
    assert module(chat)["PAID"] == []


async def test_a_function_may_ask_several_times_in_steps(tmp_path: Path) -> None:
    steps = "\n".join(f"    await use_ui_tool('Step', {{'step': {number}}})" for number in range(4))
    source = f"{PAY}\n".replace("    answer = await", f"{steps}\n    answer = await")
    chat = desk(tmp_path, [{"tool_calls": [call("pay", amount=12)]}, {"text": "ok"}], source=source)
    kept, asked = ChatRecorder(), []
    for _ in range(6):
        outcome, kept = await chat.run(kept)
        if outcome.kind is not OutcomeKind.NEEDS_HUMAN:
            break
        [question] = chat.questions()
        asked.append(question.payload)
        chat.give(question, {"choice": "yes", "stamp": "a"})

    assert outcome.kind is OutcomeKind.COMPLETED
    assert asked == [*({"step": number} for number in range(4)), {"amount": 12}]


@pytest.mark.parametrize(("amounts", "paid"), [((50, 51), [50]), ((51, 50), [50]), ((10,), [10]), ((51,), [])], ids=str)
async def test_a_standing_answer_is_used_only_where_valid_and_stored_before_use(
    tmp_path: Path, amounts: tuple[int, ...], paid: list[int]
) -> None:
    chat = desk(tmp_path, [{"tool_calls": [call("pay", amount=amount) for amount in amounts]}, {"text": "ok"}])
    answer = {"choice": "yes", "stamp": "standing"}
    chat.ui_responses = {"Approve": [{"when": "arguments.amount <= `50`", "answer": answer}]}
    kept = ChatRecorder()
    for _ in range(2):  # the second time as after a crash
        outcome, kept = await chat.run(kept)

    assert outcome.kind is (OutcomeKind.COMPLETED if len(paid) == len(amounts) else OutcomeKind.NEEDS_HUMAN)
    assert [amount for _, amount, _ in module(chat)["PAID"]] == paid
    assert [each["question"]["arguments"]["amount"] for each in kept.standing] == paid
    assert [each["by"] for each in kept.standing] == ["trigger trigger"] * len(paid)


@pytest.mark.parametrize("answer", [{"choice": True}, {"choice": "maybe"}, {"choice": ["yes"]}, {"verdict": "yes"}, {}])
async def test_a_standing_answer_that_is_none_of_the_choices_answers_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, answer: dict[str, Any]
) -> None:
    """It is refused as a person's would be. YAML reads an unquoted `yes` as true."""
    chat = desk(tmp_path, [{"tool_calls": [call("pay", amount=12)]}, {"text": "ok"}])
    chat.ui_responses = {"Approve": {"stamp": "standing", **answer}}
    outcome, kept = await chat.run()

    assert (outcome.kind, kept.standing, len(chat.questions())) == (OutcomeKind.NEEDS_HUMAN, [], 1)
    assert "standing_answer_not_a_choice" in caplog.messages


class UnavailableRecorder(ChatRecorder):
    async def record_answer(self, answer: Mapping[str, Any]) -> None:
        raise ConnectionError(f"the store is away, and keeps no {answer['by']}")


async def test_a_use_that_cannot_be_kept_allows_nothing(tmp_path: Path) -> None:
    chat = desk(tmp_path, [{"tool_calls": [call("pay", amount=12)]}, {"text": "ok"}])
    chat.ui_responses = {"Approve": {"choice": "yes", "stamp": "standing"}}
    kept = UnavailableRecorder()
    with pytest.raises(ConnectionError):
        await chat.run(kept)

    assert (module(chat)["PAID"], kept.saved) == ([], [])


async def test_an_open_turn_continues_whichever_agent_would_be_next_now(tmp_path: Path) -> None:
    """The rules that chose the speaker see another context when the turn is resumed."""
    rules = {"handoff_rules": [rule("A", "B", "${skip} == true", condition_scope="pre"), *RULES["handoff_rules"]]}
    skip = {"definitions": {"skip": {"type": "boolean", "source": {"type": "state", "default": False}}}}
    write_tool(tmp_path, "pay.py", PAY)
    package = load(tmp_path, tools=TOOLS, handoffs=rules, context_variables=skip)
    answers = {"answers": {"A": [{"tool_calls": [call("pay", amount=1)]}, {"text": "ok"}], "B": [{"text": "done"}]}}
    chat = Chat(build_chat(package, answers, tmp_path), {"skip": False, "run_id": "run_1"}, fixed={"run_id": "run_1"})
    _, kept = await chat.run()
    chat.give(chat.questions()[0], {"choice": "yes", "stamp": "a"})

    chat.context = {"skip": True, "run_id": "run_1"}
    outcome, kept = await chat.run(kept)

    assert (outcome.kind, kept.speakers) == (OutcomeKind.COMPLETED, ["A", "B"])


@pytest.mark.parametrize(
    ("replies", "left", "kind"),
    [
        ([{"tool_calls": [call("pay", amount=1)]}, {"text": "ok"}], "look_up", OutcomeKind.COMPLETED),
        ([{"tool_calls": [call("look_up", n=1), call("pay", amount=1)]}], "pay", OutcomeKind.PACKAGE_ERROR),
    ],
    ids=["nothing was done", "a tool was called"],
)
async def test_a_package_without_its_tool_drops_only_a_journal_without_effects(
    tmp_path: Path, replies: list[Any], left: str, kind: OutcomeKind
) -> None:
    chat = desk(tmp_path / "old", replies)
    _, kept = await chat.run()
    chat.give(chat.questions()[0], {"choice": "yes", "stamp": "a"})
    tools = [{"agent": "A", "file": "pay.py", "function": left}]
    newer = load(write_tool(tmp_path / "new", "pay.py", PAY).parents[1], tools=tools, handoffs=RULES)
    chat.built = build_chat(newer, {"answers": {"A": [{"text": "ok"}], "B": [{"text": "done"}]}}, tmp_path / "new")
    outcome, kept = await chat.run(kept)

    if kind is OutcomeKind.PACKAGE_ERROR:
        assert "has lost the tool look_up while turn 1 waited" in outcome.reason
    assert outcome.kind is kind


class CrashedError(Exception):
    """The process has crashed."""


class CrashingRecorder(ChatRecorder):
    """Crashes before or after the n-th write, as a kill does; earlier writes stay."""

    die_at = 0
    writes = 0

    def _crash_if_due(self) -> None:
        self.writes += 1
        if self.writes == self.die_at:
            raise CrashedError

    async def keep_open_turn(self, turn: Any) -> None:
        self._crash_if_due()
        await super().keep_open_turn(turn)
        self._crash_if_due()

    async def record_answer(self, answer: Any) -> None:
        self._crash_if_due()
        await super().record_answer(answer)
        self._crash_if_due()

    async def commit(self, number: int, turn: Any, checkpoint: Any) -> None:
        self._crash_if_due()
        await super().commit(number, turn, checkpoint)
        self._crash_if_due()


AMOUNTS = st.integers(1, 4).map(lambda amount: amount * 25)
CALLS = st.one_of(
    AMOUNTS.map(lambda amount: call("pay", amount=amount)), st.integers(1, 3).map(lambda n: call("look_up", n=n))
)
REPLIES = st.lists(
    st.lists(CALLS, min_size=1, max_size=3).map(lambda calls: {"tool_calls": calls}), min_size=1, max_size=3
)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(replies=REPLIES, worded=REPLIES, standing=st.booleans(), data=st.data())
def test_no_code_acts_on_what_was_not_shown_and_no_answer_serves_two_calls(
    tmp_path_factory: pytest.TempPathFactory, replies: list[Any], worded: list[Any], standing: bool, data: st.DataObject
) -> None:
    """Models reword, people answer some questions twice, processes die at any write."""
    asyncio.run(_run_storm(tmp_path_factory.mktemp("desk"), [replies, worded], standing=standing, data=data))


async def _run_storm(folder: Path, versions: list[list[Any]], *, standing: bool, data: st.DataObject) -> None:
    chats = [desk(folder / str(number), [*replies, {"text": "ok"}]) for number, replies in enumerate(versions)]
    kept, crashes, asked = CrashingRecorder(), 0, dict[str, Question]()
    for taking in range(30):
        chat = chats[data.draw(st.integers(0, 1)) if taking else 0]
        chat.answers = chats[0].answers
        if standing:
            when = "arguments.amount <= `25`"
            chat.ui_responses = {"pay": [{"when": when, "answer": {"choice": "yes", "stamp": "standing"}}]}
        kept.writes, kept.die_at = 0, data.draw(st.integers(0, 8))
        outcome = await _until_crash(chat, kept)
        crashes += outcome is None
        if outcome is not None and outcome.kind is not OutcomeKind.NEEDS_HUMAN:
            break
        for question in chat.questions() if outcome is not None else ():
            if data.draw(st.booleans()):
                asked[stamp := f"answer {len(asked)}"] = question
                chat.give(question, {"choice": data.draw(st.sampled_from(["yes", "no"])), "stamp": stamp})
    _assert_paid_once([each for chat in chats for each in module(chat)["PAID"]], asked, crashes)


def _assert_paid_once(paid: list[tuple[str, int, str]], questions: dict[str, Question], crashes: int) -> None:
    for _, amount, stamp in paid:
        if stamp == "standing":
            assert amount <= 25
        else:
            assert questions[stamp].arguments == {"amount": amount}
    for stamp in questions:
        assert sum(each[2] == stamp for each in paid) <= 1 + crashes  # only a call that a crash cut off is made again
    assert len({question.id for question in questions.values()}) == len(questions)


async def _until_crash(chat: Chat, recorder: CrashingRecorder) -> Outcome | None:
    try:
        outcome, _ = await chat.run(recorder)
    except CrashedError:
        return None
    return outcome
