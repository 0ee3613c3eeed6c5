"""Open turns: packages, models and stores change while a turn waits for an answer."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.workflows.chat.questions.test_approvals import RULES, call
from tests.unit.workflows.chats import Chat, ChatRecorder, build_chat
from tests.unit.workflows.packages import load, rule, write_tool
from workflows.chat.providers import script
from workflows.context.redaction import Redactor
from workflows.outcome import OutcomeKind

YES = {"choice": "yes"}


def desk(folder: Path, source: str, replies: list[Any], *functions: str, **files: Any) -> Chat:
    """A takes its turns from `replies`, then hands over to B, which ends the chat."""
    write_tool(folder, "desk.py", f"from workflows.tools import use_ui_tool\nDONE = []\n{source}")
    tools = [{"agent": "A", "file": "desk.py", "function": function} for function in functions]
    package = load(folder, **{"tools": tools, "handoffs": RULES, **files})
    assert not package.is_refused, package.findings
    answers = {"answers": {"A": replies, "B": [{"text": "done"}]}}
    return Chat(build_chat(package, answers, folder), {"run_id": "run_1"}, fixed={"run_id": "run_1"})


def done_calls(chat: Chat) -> list[Any]:
    tool = next(each for each in chat.built.agents["A"].tools)
    return tool._tool.function.__globals__["DONE"]  # type: ignore[attr-defined,no-any-return]  # ours, and not of the interface of AG2


async def answer_until_end(
    chat: Chat, recorder: ChatRecorder | None = None, response: dict[str, Any] | None = None
) -> Any:
    """Answers every question alike until the chat asks no more."""
    recorder = recorder or ChatRecorder()
    for _ in range(6):
        outcome, recorder = await chat.run(recorder)
        if outcome.kind is not OutcomeKind.NEEDS_HUMAN:
            return outcome, recorder
        for question in chat.questions():
            chat.give(question, response or YES)
    raise AssertionError("it asks for ever")


class FailingOnceRecorder(ChatRecorder):
    """A recorder whose store is unavailable for one write."""

    fails = False

    async def keep_open_turn(self, turn: Any) -> None:
        if self.fails:
            self.fails = False
            raise ConnectionError("the store is away")
        await super().keep_open_turn(turn)


PAY = """
async def pay(amount: int):
    answer = await use_ui_tool("Approve", {"amount": amount}, choices=["yes", "no"])
    DONE.append(amount)
    return answer["choice"]
"""


async def test_an_unrecordable_call_is_not_reported_to_the_model_as_failed(tmp_path: Path) -> None:
    chat = desk(tmp_path, PAY, [{"tool_calls": [call("pay", amount=10)]}, {"text": "ok"}], "pay")
    kept = FailingOnceRecorder()
    await chat.run(kept)
    chat.give(chat.questions()[0], YES)
    kept.fails = True

    with pytest.raises(ConnectionError):
        await chat.run(kept)

    assert len(kept.calls) == 1


async def test_names_of_variables_may_be_anything(tmp_path: Path) -> None:
    source = """
async def pay(amount: int, context_variables):
    await use_ui_tool("Approve", {"amount": amount})
    return "paid"

def note(context_variables):
    context_variables[5] = "five"
    context_variables["a"] = 1
    context_variables[("t", 1)] = 2
    return "noted"
"""
    replies = [{"tool_calls": [call("note"), call("pay", amount=10)]}, {"text": "ok"}]
    chat = desk(tmp_path, source, replies, "pay", "note")
    outcome, kept = await answer_until_end(chat)

    assert outcome.kind is OutcomeKind.COMPLETED
    texts = [each["text"] for event in kept.turn(1).events for each in event.get("tool_results", ())]
    assert texts == ["noted", "paid"]
    assert kept.context(1)["5"] == "five"


@pytest.mark.parametrize("call_id", ["same", ""], ids=["one id", "no id"])
async def test_calls_of_one_reply_that_have_one_id_get_their_own_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call_id: str
) -> None:
    replies = [{"tool_calls": [call("pay", amount=10), call("pay", amount=20)]}, {"text": "ok"}]
    chat = desk(tmp_path, PAY, replies, "pay")
    wanted = script._to_tool_calls

    def with_one_id(*given: Any) -> Any:
        calls = wanted(*given)
        for each in calls:
            each.id = call_id
        return calls

    monkeypatch.setattr(script, "_to_tool_calls", with_one_id)
    _, kept = await chat.run()
    first, second = chat.questions()
    chat.give(first, {"choice": "yes"})
    chat.give(second, {"choice": "no"})
    _, kept = await chat.run(kept)

    texts = [each["text"] for event in kept.turn(1).events for each in event.get("tool_results", ())]
    assert texts == ["yes", "no"]


async def test_a_question_shows_the_arguments_as_the_model_sent_them(tmp_path: Path) -> None:
    source = """
from typing import Any

async def pay(order: Any):
    order["amount"] = 9_000
    await use_ui_tool("Approve")
"""
    chat = desk(tmp_path, source, [{"tool_calls": [call("pay", order={"amount": 1})]}], "pay")
    await chat.run()

    assert chat.questions()[0].arguments == {"order": {"amount": 1}}


SECRET, PIN = "canary-secret-99", "48151623"


async def test_nothing_hidden_is_kept_with_an_open_turn(tmp_path: Path) -> None:
    source = f"""
SECRET, PIN = {SECRET!r}, {PIN}

async def pay(amount: str, context_variables):
    answer = await use_ui_tool(SECRET, {{"deep": [{{SECRET: PIN}}]}}, title=SECRET, choices=["yes", SECRET])
    return SECRET

def read(context_variables, what: str = ""):
    context_variables[SECRET] = 1
    context_variables["deep"] = [{{"pin": PIN, SECRET: [SECRET]}}]
    context_variables["pin"] = PIN
    raise ValueError(SECRET)

async def ask(context_variables):
    context_variables.remove("gone")
    answer = await use_ui_tool("Ask")
    return answer
"""
    calls = [call("read", what=f"x{SECRET}"), call("ask"), call("pay", amount=SECRET)]
    chat = desk(tmp_path, source, [{"tool_calls": calls, "text": SECRET}, {"text": "ok"}], "pay", "read", "ask")
    chat.redactor = Redactor([SECRET, PIN])
    chat.ui_responses = {"Ask": {"token": SECRET, "n": int(PIN)}}
    outcome, kept = await chat.run()

    assert outcome.kind is OutcomeKind.NEEDS_HUMAN
    shown = json.dumps([kept.open_turn, [each.as_document() for each in chat.questions()], outcome.reason])
    assert SECRET not in shown
    assert PIN not in shown
    shown = json.dumps([each["question"] for each in kept.standing])
    assert SECRET not in shown


@pytest.mark.parametrize(
    ("body", "fits"),
    [
        ("return 'x' * 90_000", True),
        ("return '漢' * 90_000", False),  # of three bytes each
        ("context_variables[f'v{n}'] = ['x' * 30_000] * 10", False),
    ],
    ids=["fits", "bytes and not characters", "what tools write counts too"],
)
async def test_an_open_turn_that_is_too_large_to_be_kept_fails_the_run(tmp_path: Path, body: str, fits: bool) -> None:
    source = f"""
def read(n: int, context_variables):
    {body}

async def pay(amount: int):
    await use_ui_tool("Approve")
"""
    replies = [{"tool_calls": [call("read", n=n) for n in range(30)]}, {"tool_calls": [call("pay", amount=1)]}]
    chat = desk(tmp_path, source, replies, "pay", "read")
    outcome, kept = await chat.run()

    if fits:
        assert outcome.kind is OutcomeKind.NEEDS_HUMAN
        return
    assert (outcome.kind, kept.open_turn) == (OutcomeKind.PACKAGE_ERROR, None)
    assert "the journal of turn 1, which waits for a person, is larger than 6 MB" in outcome.reason
    assert outcome.error is not None
    assert (outcome.error.agent, outcome.error.turn) == ("A", 1)


async def test_what_goes_on_when_its_call_is_over_asks_in_vain(tmp_path: Path) -> None:
    """The call is recorded and never repeated, so no answer would reach it."""
    source = """
import asyncio
LATER = []

async def later():
    await asyncio.sleep(0.05)
    await use_ui_tool("Later")

async def pay(amount: int):
    LATER.append(asyncio.create_task(later()))
    return "begun"

async def wait():
    DONE.extend(await asyncio.gather(*LATER, return_exceptions=True))
"""
    replies = [{"tool_calls": [call("pay", amount=1)]}, {"tool_calls": [call("wait")]}, {"text": "ok"}]
    chat = desk(tmp_path, source, replies, "pay", "wait")
    outcome, _ = await chat.run()

    assert (outcome.kind, chat.questions()) == (OutcomeKind.PACKAGE_ERROR, [])
    assert "pay has ended, and code that it left running asks a person" in outcome.reason


@pytest.mark.parametrize("choices", [["yes", "n" * 201], ["yes", "yes"], ["yes", " "], [], [1], "yes", ["x"] * 21])
async def test_choices_that_no_answer_could_equal_are_refused(tmp_path: Path, choices: Any) -> None:
    source = f"""
async def pay(amount: int):
    await use_ui_tool("Approve", choices={choices!r})
"""
    chat = desk(tmp_path, source, [{"tool_calls": [call("pay", amount=1)]}, {"text": "ok"}], "pay")
    outcome, kept = await chat.run()

    assert outcome.kind is OutcomeKind.COMPLETED
    assert [each.type for each in kept.turn(1).errors] == ["UIToolError"]


async def test_an_object_one_call_reads_does_not_overwrite_anothers_write(tmp_path: Path) -> None:
    source = """
import asyncio
class Box:
    def __init__(self): self.n = 0

def put(context_variables):
    context_variables["box"] = Box()

async def write(context_variables):
    context_variables["box"].n = 7
    context_variables["wrote"] = True

async def read(context_variables):
    context_variables["box"].n
    await asyncio.sleep(0.05)

def see(context_variables):
    DONE.append(context_variables["box"].n)
"""
    replies = [
        {"tool_calls": [call("put")]},
        {"tool_calls": [call("write"), call("read")]},
        {"tool_calls": [call("see")]},
        {"text": "ok"},
    ]
    chat = desk(tmp_path, source, replies, "put", "write", "read", "see")
    outcome, _ = await chat.run()
    assert outcome.kind is OutcomeKind.COMPLETED
    assert done_calls(chat) == [7]


async def test_a_hand_over_beside_a_call_that_asks_waits_for_its_answer(tmp_path: Path) -> None:
    judged = {
        "handoff_rules": [
            {
                "source_agent": "A",
                "target_agent": "B",
                "handoff_type": "condition",
                "condition": "the customer is angry",
                "condition_type": "string_llm",
            },
            rule("A", "terminate"),
            rule("B", "terminate"),
        ]
    }
    replies = [{"tool_calls": [call("transfer_to_B"), call("pay", amount=1)], "text": "over to B"}, {"text": "never"}]
    chat = desk(tmp_path, PAY, replies, "pay", handoffs=judged)
    _, kept = await chat.run()
    assert [each.position for each in chat.questions()] == ["1.2"]
    outcome, kept = await answer_until_end(chat, kept)
    assert (outcome.kind, kept.speakers, done_calls(chat)) == (OutcomeKind.COMPLETED, ["A", "B"], [1])


STEP = """
async def step(ctx):
    answer = await use_ui_tool("Step", {"n": 1})
    DONE.append(answer)

async def pay(amount: int):
    return "x"

async def hook(agent, messages):
    answer = await use_ui_tool("Hook", {"n": 1})
    agent.context_variables.set("hooked", answer["choice"])
"""


@pytest.mark.parametrize("moment", ["before_chat", "before_agent", "after_agent", "on_start", "hook"])
async def test_a_step_that_asks_is_made_again_and_no_model_answer_is(tmp_path: Path, moment: str) -> None:
    replies = [{"tool_calls": [call("pay", amount=1)]}, {"text": "ok"}]
    files: dict[str, Any] = {}
    tools: Any = [{"agent": "A", "file": "desk.py", "function": "pay"}]
    if moment == "hook":
        files["hooks"] = [
            {"hook_type": "update_agent_state", "hook_agent": "A", "filename": "desk.py", "function": "hook"}
        ]
        files["hooks"] = {"hooks": files["hooks"]}
    else:
        tools = {
            "tools": tools,
            "lifecycle_tools": [
                {
                    "trigger": moment,
                    "file": "desk.py",
                    "function": "step",
                    **({"agent": "A"} if "agent" in moment else {}),
                }
            ],
        }
    chat = desk(tmp_path, STEP, replies, "pay", tools=tools, **files)
    outcome, kept = await answer_until_end(chat)
    assert outcome.kind is OutcomeKind.COMPLETED
    assert len(done_calls(chat)) + kept.turn(1).context_changes.get("hooked", "").count("yes") >= 1
    assert [each.agent for each in kept.calls] == ["A", "A", "B"]


AUTO = """
def charge(amount: int, context_variables):
    DONE.append(amount)
    context_variables["charged"] = amount

async def approve(amount: int):
    return await use_ui_tool("Approve", {"amount": amount})
"""


async def test_an_automatic_tool_that_asks_repeats_no_earlier_tool_or_answer(
    tmp_path: Path,
) -> None:
    """The package is edited while the person thinks, so its tools have another order."""
    replies = [{"text": "no JSON"}, {"text": '{"amount": 5}'}]
    model = {"type": "model", "fields": {"amount": {"type": "int"}}}
    files = {
        "agents": [{"name": "A", "auto_tool_mode": True, "system_message": "You are A."}, {"name": "B"}],
        "structured_outputs": {"models": {"M": model}, "registry": {"A": "M"}},
    }

    def chat_with_tools(folder: Path, *functions: str) -> Chat:
        tools = [{"agent": "A", "file": "desk.py", "function": name, "auto_invoke": True} for name in functions]
        return desk(folder, AUTO, replies, tools=tools, **files)

    chat = chat_with_tools(tmp_path / "old", "charge", "approve")
    _, kept = await chat.run()
    [question] = chat.questions()
    chat.give(question, YES)
    edited = chat_with_tools(tmp_path / "new", "approve", "charge")
    chat.built = edited.built
    outcome, kept = await chat.run(kept)

    assert outcome.kind is OutcomeKind.COMPLETED
    [results] = [event["tool_results"] for event in kept.turn(1).events if event.get("tool_results")]
    assert [(each["name"], each["text"]) for each in results] == [("approve", '{"choice": "yes"}'), ("charge", "null")]
    charge = edited.built.auto_tools["A"][1].function
    assert charge.__globals__["DONE"] == []
    assert kept.context(1)["charged"] == 5
    assert [each.agent for each in kept.calls] == ["A", "A", "B"]


async def test_a_model_that_fails_after_an_approved_call_does_not_make_it_again(tmp_path: Path) -> None:
    """Limits and guards count the work of a turn once, however often it is resumed."""
    busy = {"error": {"status": 503}}
    replies = [{"tool_calls": [call("pay", amount=10), call("pay", amount=20)]}, busy, {"text": "ok"}]
    orchestrator = {"workflow_name": "Small", "initial_agent": "A", "limits": {"tool_calls": 2}}
    chat = desk(tmp_path, PAY, replies, "pay", orchestrator=orchestrator)
    _, kept = await chat.run()
    for question in chat.questions():
        chat.give(question, YES)
    outcome, kept = await chat.run(kept)
    assert (outcome.kind, outcome.transient) == (OutcomeKind.MODEL_ERROR, True)
    outcome, kept = await chat.run(kept, failed={"A": 1})

    assert (outcome.kind, sorted(done_calls(chat))) == (OutcomeKind.COMPLETED, [10, 20])
    assert [each.error is None for each in kept.calls] == [True, False, True, True]
