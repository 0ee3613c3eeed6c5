"""Guards: each ends a chat in time, with an outcome that names agent and turn."""

import asyncio
import itertools
import logging
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from accounting.budgets.reservation_types import (
    BudgetBusyError,
    BudgetExhaustedError,
    BudgetHoldError,
    PlannedCall,
    Settle,
)
from accounting.prices import Price, PriceTable
from accounting.usage import ModelCall
from tests.unit.workflows.chats import Chat, ChatRecorder, build_chat
from tests.unit.workflows.packages import ORCHESTRATOR, load, rule, write_tool
from workflows.chat.chat_state import ChatTimeouts
from workflows.chat.limits.repetitions import MAX_ROUND_CYCLES, MAX_SAME_ROUNDS, MAX_SAME_TURNS, MAX_TURN_CYCLES
from workflows.outcome import Outcome, OutcomeKind

ROUND = {"handoff_rules": [rule("A", "B"), rule("B", "A")]}
ALONE = {"handoff_rules": [rule("A", "A")]}
STEP = "def step(name: str = ''):\n    return 'done'\n"
COUNT = """
def step(context_variables, name: str = ''):
    context_variables['n'] = context_variables.get('n', 0) + 1
    return f"done {context_variables['n']}"
"""
CALL = {"tool_calls": [{"name": "step"}]}


def calling(name: str) -> dict[str, Any]:
    return {"tool_calls": [{"name": "step", "arguments": {"name": name}}]}


def guarded_chat(folder: Path, answers: Any = None, *, tool: str = STEP, limits: Any = None, **files: Any) -> Chat:
    write_tool(folder, "step.py", tool)
    files.setdefault("tools", [{"agent": "A", "file": "step.py", "function": "step"}])
    files.setdefault("orchestrator", {**ORCHESTRATOR, "limits": limits or {}})
    package = load(folder, **files)
    assert not package.is_refused, package.findings
    return Chat(build_chat(package, answers or {"default": {"text": "ok", "usage": {"input": 3, "output": 1}}}, folder))


def assert_stopped(outcome: Outcome, kind: OutcomeKind, agent: str, turn: int) -> str:
    """Checks for agent and turn in the outcome's fields and text; returns the text."""
    assert outcome.error is not None
    assert (outcome.kind, outcome.error.agent, outcome.error.turn) == (kind, agent, turn)
    assert outcome.error.message == outcome.reason
    words = outcome.reason.replace(";", " ").replace(",", " ").replace(":", " ").split()
    assert agent in words
    assert ("turn", str(turn)) in itertools.pairwise(words)
    return outcome.reason


async def test_turns(tmp_path: Path) -> None:
    outcome, kept = await guarded_chat(tmp_path, limits={"max_turns": 3}, handoffs=ROUND).run()

    assert "limit of 3 turns" in assert_stopped(outcome, OutcomeKind.MAX_TURNS, "B", 4)
    assert kept.speakers == ["A", "B", "A"]


async def test_model_calls(tmp_path: Path) -> None:
    outcome, kept = await guarded_chat(tmp_path, limits={"model_calls": 2}, handoffs=ROUND).run()

    assert "limit of 2 model calls" in assert_stopped(outcome, OutcomeKind.LOOP_DETECTED, "A", 3)
    assert (kept.speakers, len(kept.calls)) == (["A", "B"], 2)


async def test_tool_calls_count_over_all_turns_and_none_exceeds_the_limit(tmp_path: Path) -> None:
    both = {"tool_calls": [CALL["tool_calls"][0], {"name": "step", "arguments": {"name": "x"}}]}
    answers = {"answers": {"A": [both, {"text": "one"}, CALL, {"text": "two"}, CALL]}, "default": {"text": "ok"}}
    by_name = COUNT.replace("'n'", "'n' + name")  # calls of one reply do not see each other's writes
    chat = guarded_chat(tmp_path, answers, tool=by_name, limits={"tool_calls": 3}, handoffs=ROUND)

    outcome, kept = await chat.run()

    assert "limit of 3 tool calls" in assert_stopped(outcome, OutcomeKind.LOOP_DETECTED, "A", 5)
    assert chat.last is not None
    assert (chat.last.context["n"], chat.last.context["nx"], chat.last.counters.tool_calls) == (2, 1, 3)
    assert kept.checkpoint(2).counters.tool_calls == 2


async def test_tokens(tmp_path: Path) -> None:
    outcome, kept = await guarded_chat(tmp_path, limits={"tokens": 8}, handoffs=ROUND).run()

    assert "limit of 8 tokens" in assert_stopped(outcome, OutcomeKind.BUDGET_EXHAUSTED, "A", 3)
    assert len(kept.calls) == 2


@pytest.mark.parametrize(("usd", "calls"), [(0.00001, 2), (0.000011, 3), (1e-9, 1)])
async def test_money(tmp_path: Path, usd: float, calls: int) -> None:
    chat, kept = guarded_chat(tmp_path, limits={"usd": usd}, handoffs=ROUND), ChatRecorder()
    conversation = chat.conversation(kept)
    conversation.meter.prices = PriceTable([Price("*", "*", Decimal(1), Decimal(2))])  # 5 micro-dollars a call

    outcome = await chat.take_turns(conversation, kept)

    assert "USD" in assert_stopped(outcome, OutcomeKind.BUDGET_EXHAUSTED, "AB"[calls % 2], calls + 1)
    assert len(kept.calls) == calls


async def test_a_model_without_a_price_is_logged_once_where_money_is_limited(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for limits in ({"usd": 1, "max_turns": 4}, {"max_turns": 4}):
        outcome, _ = await guarded_chat(tmp_path, limits=limits, handoffs=ROUND).run()
        assert outcome.kind is OutcomeKind.MAX_TURNS

    said = [vars(each) for each in caplog.records if each.getMessage() == "price_unknown"]
    assert [(each["provider"], each["agent"]) for each in said] == [("script", "A")]


@pytest.mark.parametrize("where", ["model", "tool"])
async def test_the_wall_clock(tmp_path: Path, where: str) -> None:
    hang = "import asyncio\nasync def step():\n    await asyncio.Event().wait()\n"
    entry = CALL if where == "tool" else {"text": "late", "delay_s": 60}
    chat = guarded_chat(tmp_path, {"answers": {"A": [entry]}}, tool=hang)
    chat.wall_clock_s = 0.05

    outcome, _ = await chat.run()

    assert "wall-clock limit" in assert_stopped(outcome, OutcomeKind.TIMEOUT, "A", 1)


async def test_time_worked_is_kept_and_runs_on_in_the_next_attempt(tmp_path: Path) -> None:
    slow = guarded_chat(tmp_path, {"default": {"text": "ok", "delay_s": 0.01}}, limits={"max_turns": 2}, handoffs=ROUND)
    _, kept = await slow.run()
    _, resumed = await slow.run(kept.copy_up_to(1))

    first, *later = (each.counters.worked_s for each in (kept.checkpoint(1), kept.checkpoint(2), resumed.checkpoint(2)))
    assert first >= 0.009
    assert min(later) >= first + 0.009


async def test_time_that_runs_out_between_two_turns_names_the_next_agent(tmp_path: Path) -> None:
    class LateOnce(ChatRecorder):
        async def commit(self, number: int, turn: Any, checkpoint: Any) -> None:
            await super().commit(number, turn, checkpoint)
            object.__setattr__(conversation.clock, "limit_s", 0)

    chat, kept = guarded_chat(tmp_path, handoffs=ROUND), LateOnce()
    conversation = chat.conversation(kept)

    outcome = await chat.take_turns(conversation, kept)

    assert_stopped(outcome, OutcomeKind.TIMEOUT, "B", 2)


async def test_an_empty_answer(tmp_path: Path) -> None:
    outcome, _ = await guarded_chat(tmp_path, {"answers": {"A": [{"text": " "}]}}).run()

    assert "empty answer" in assert_stopped(outcome, OutcomeKind.MODEL_ERROR, "A", 1)
    assert outcome.transient


async def test_pre_scope_rules_in_a_circle(tmp_path: Path) -> None:
    rules = [
        rule("A", "B", "True or ${x}", condition_scope="pre"),
        rule("B", "A", "True or ${x}", condition_scope="pre"),
    ]

    outcome, _ = await guarded_chat(tmp_path, handoffs={"handoff_rules": rules}).run()

    assert "circle" in assert_stopped(outcome, OutcomeKind.LOOP_DETECTED, "A", 1)


@pytest.mark.parametrize(("most", "speakers"), [(0, []), (1, ["A"]), (3, ["A"] * 3)])
async def test_turns_of_one_agent_in_a_row(tmp_path: Path, most: int, speakers: list[str]) -> None:
    agents = [{"name": "A", "max_consecutive_auto_reply": most}, {"name": "B"}]

    outcome, kept = await guarded_chat(tmp_path, agents=agents, handoffs=ALONE).run()

    said = assert_stopped(outcome, OutcomeKind.MAX_TURNS, "A", most + 1)
    assert "max_consecutive_auto_reply" in said
    assert kept.speakers == speakers


async def test_a_turn_of_another_agent_resets_the_row(tmp_path: Path) -> None:
    agents = [{"name": "A", "max_consecutive_auto_reply": 1}, {"name": "B", "max_consecutive_auto_reply": 1}]

    outcome, kept = await guarded_chat(tmp_path, agents=agents, handoffs=ROUND, limits={"max_turns": 6}).run()

    assert "limit of 6 turns" in outcome.reason
    assert kept.speakers == ["A", "B"] * 3


async def test_an_agent_without_a_reply_limit_takes_as_many_turns_as_there_are(tmp_path: Path) -> None:
    answers = {"answers": {"A": [{"text": f"{number}"} for number in range(12)]}}

    _, kept = await guarded_chat(tmp_path, answers, handoffs=ALONE, limits={"max_turns": 12}).run()

    assert len(kept.speakers) == 12


@pytest.mark.design("D5-32")
async def test_the_same_tool_calls_again_and_again(tmp_path: Path) -> None:
    ran = tmp_path.parent / f"{tmp_path.name}-ran"
    tool = f"def step():\n    with open({str(ran)!r}, 'a') as file:\n        file.write('x')\n    return 'done'\n"

    outcome, kept = await guarded_chat(tmp_path, {"default": CALL}, tool=tool).run()

    said = assert_stopped(outcome, OutcomeKind.LOOP_DETECTED, "A", 1)
    assert f"{MAX_SAME_ROUNDS} times in a row (step)" in said
    assert ran.read_text() == "x" * (MAX_SAME_ROUNDS - 1)
    assert len(kept.calls) == MAX_SAME_ROUNDS


async def test_tool_calls_that_take_turns(tmp_path: Path) -> None:
    answers = {"answers": {"A": [calling(name) for name in "xyz" * MAX_ROUND_CYCLES]}}

    outcome, kept = await guarded_chat(tmp_path, answers).run()

    assert f"the same 3 rounds {MAX_ROUND_CYCLES} times over" in assert_stopped(
        outcome, OutcomeKind.LOOP_DETECTED, "A", 1
    )
    assert len(kept.calls) == 3 * MAX_ROUND_CYCLES


async def test_the_same_call_with_another_answer_each_time_is_work(tmp_path: Path) -> None:
    answers = {"answers": {"A": [*[CALL] * 20, {"text": "all taken"}]}}

    outcome, kept = await guarded_chat(tmp_path, answers, tool=COUNT).run()

    assert (outcome.kind, kept.context(1)["n"]) == (OutcomeKind.COMPLETED, 20)


async def test_the_same_turn_again_and_again(tmp_path: Path) -> None:
    outcome, kept = await guarded_chat(tmp_path, handoffs=ALONE).run()

    said = assert_stopped(outcome, OutcomeKind.LOOP_DETECTED, "A", MAX_SAME_TURNS + 1)
    assert f"the same turn {MAX_SAME_TURNS} times in a row" in said
    assert len(kept.speakers) == MAX_SAME_TURNS


async def test_turns_that_take_turns(tmp_path: Path) -> None:
    outcome, kept = await guarded_chat(tmp_path, handoffs=ROUND).run()

    said = assert_stopped(outcome, OutcomeKind.LOOP_DETECTED, "A", 2 * MAX_TURN_CYCLES + 1)
    assert f"the same 2 turns {MAX_TURN_CYCLES} times over" in said
    assert kept.speakers == ["A", "B"] * MAX_TURN_CYCLES


async def test_the_limit_of_turns_is_asked_before_loops(tmp_path: Path) -> None:
    outcome, _ = await guarded_chat(tmp_path, handoffs=ALONE, limits={"max_turns": MAX_SAME_TURNS}).run()

    assert outcome.kind is OutcomeKind.MAX_TURNS


async def test_turns_that_change_the_context_are_no_loop(tmp_path: Path) -> None:
    answers = {"answers": {"A": [CALL, {"text": "ok"}] * 10}}

    outcome, kept = await guarded_chat(tmp_path, answers, tool=COUNT, handoffs=ALONE, limits={"max_turns": 10}).run()

    assert (outcome.kind, kept.context(10)["n"]) == (OutcomeKind.MAX_TURNS, 10)


@pytest.mark.parametrize(
    ("answers", "handoffs", "limits"),
    [
        ({"default": {"text": "ok", "usage": {"input": 3, "output": 1}}}, ROUND, {}),
        ({"default": {"text": "ok", "usage": {"input": 3, "output": 1}}}, ROUND, {"tokens": 10}),
        ({"default": {"text": "ok"}}, ROUND, {"model_calls": 4}),
        ({"default": {"text": "ok"}}, ALONE, {}),
        ({"answers": {"A": [CALL, {"text": "ok"}] * 9}}, ALONE, {}),
        ({"answers": {"A": [CALL, CALL, {"text": "ok"}] * 9}}, ALONE, {"tool_calls": 7}),
    ],
)
async def test_a_resumed_chat_is_stopped_where_it_would_have_been(
    tmp_path: Path, answers: Any, handoffs: Any, limits: Any
) -> None:
    chat = guarded_chat(tmp_path, answers, handoffs=handoffs, limits=limits)
    whole, kept = await chat.run()

    for number in range(1, len(kept.saved)):
        again, resumed = await chat.run(kept.copy_up_to(number))
        assert (again, resumed.speakers) == (whole, kept.speakers)


class LimitedBudget:
    """Counts reservations and settlements."""

    def __init__(self, allowed: float = float("inf"), *, refusal: Exception | None = None) -> None:
        self.allowed = allowed
        self.refusal = refusal
        self.planned: list[PlannedCall] = []
        self.settled: list[ModelCall] = []

    async def reserve(self, call: PlannedCall) -> Settle:
        await asyncio.sleep(0)
        self.planned.append(call)
        if len(self.planned) > self.allowed:
            raise self.refusal or BudgetExhaustedError("acme has spent 5 USD today")
        return self._settle

    async def _settle(self, call: ModelCall) -> None:
        await asyncio.sleep(0)
        self.settled.append(call)


@pytest.mark.design("D5-33")
async def test_money_is_reserved_before_each_call_and_settled_after_it(tmp_path: Path) -> None:
    chat, budget = guarded_chat(tmp_path, {"answers": {"A": [CALL, {"text": "ok"}]}}), LimitedBudget()
    chat.reserve = budget.reserve

    _, kept = await chat.run()

    assert budget.settled == kept.calls
    assert [call.number for call in budget.planned] == [call.number for call in kept.calls] == [1, 2]
    assert [call.prompt_characters > 0 for call in budget.planned] == [True, True]


@pytest.mark.design("D4-83")
async def test_a_call_without_money_is_not_made(tmp_path: Path) -> None:
    chat, budget = guarded_chat(tmp_path, handoffs=ROUND), LimitedBudget(2)
    chat.reserve = budget.reserve

    outcome, kept = await chat.run()

    said = assert_stopped(outcome, OutcomeKind.BUDGET_EXHAUSTED, "A", 3)
    assert said.startswith("acme has spent 5 USD today; ")
    assert chat.last is not None
    assert (len(kept.calls), len(budget.settled), chat.last.counters.model_calls) == (2, 2, 2)
    assert not outcome.transient


async def test_a_failed_call_is_settled_once(tmp_path: Path) -> None:
    chat, budget = guarded_chat(tmp_path, {"answers": {"A": [{"error": 503}]}}), LimitedBudget()
    chat.reserve = budget.reserve

    _, kept = await chat.run()

    assert budget.settled == kept.calls
    assert [call.ok for call in kept.calls] == [False]


UNTIL = datetime(2026, 3, 29, 22, tzinfo=UTC)


@pytest.mark.parametrize(
    ("refusal", "held_by", "held_until"),
    [
        (BudgetHoldError("all is spent", held_by="budget:x", until=UNTIL), "budget:x", UNTIL),
        (BudgetBusyError("others hold it"), None, None),
    ],
)
async def test_a_run_that_must_wait_for_money_is_handed_back_within_its_turn(
    tmp_path: Path, refusal: Exception, held_by: str | None, held_until: datetime | None
) -> None:
    chat, budget = guarded_chat(tmp_path, {"answers": {"A": [CALL, CALL]}}), LimitedBudget(1, refusal=refusal)
    chat.reserve = budget.reserve

    outcome, kept = await chat.run()

    said = assert_stopped(outcome, OutcomeKind.HANDED_BACK, "A", 1)
    assert said.startswith(str(refusal))
    assert (outcome.held_by, outcome.held_until) == (held_by, held_until)
    assert (outcome.retry_after_s is None) is (held_by is not None)
    assert (len(kept.calls), len(kept.saved)) == (1, 0)


async def test_a_budget_that_cannot_be_asked_means_another_attempt_and_no_call(tmp_path: Path) -> None:
    chat, budget = guarded_chat(tmp_path), LimitedBudget(0, refusal=ConnectionError("away"))
    chat.reserve = budget.reserve

    outcome, kept = await chat.run()

    assert "the budget cannot be checked" in assert_stopped(outcome, OutcomeKind.MODEL_ERROR, "A", 1)
    assert (outcome.transient, kept.calls, budget.settled) == (True, [], [])


async def test_a_budget_that_does_not_answer_is_one_that_cannot_be_asked(tmp_path: Path) -> None:
    chat = guarded_chat(tmp_path)
    chat.timeouts = ChatTimeouts(budget_s=0.01)

    async def hang(_: PlannedCall) -> Settle:
        await asyncio.Event().wait()
        raise AssertionError

    chat.reserve = hang

    outcome, kept = await chat.run()

    assert "TimeoutError" in assert_stopped(outcome, OutcomeKind.MODEL_ERROR, "A", 1)
    assert (outcome.transient, kept.calls) == (True, [])


@pytest.mark.parametrize("hangs", [True, False])
async def test_an_answer_that_is_paid_for_is_used_though_it_could_not_be_settled(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, hangs: bool
) -> None:
    chat = guarded_chat(tmp_path)
    chat.timeouts = ChatTimeouts(budget_s=0.01)

    async def settle(_: ModelCall) -> None:
        if hangs:
            await asyncio.Event().wait()
        raise ConnectionError

    async def reserve(_: PlannedCall) -> Settle:
        return settle

    chat.reserve = reserve
    with caplog.at_level(logging.WARNING):
        outcome, kept = await chat.run()

    assert (outcome.kind, len(kept.calls)) == (OutcomeKind.COMPLETED, 1)
    assert "budget_not_settled" in [each.getMessage() for each in caplog.records]
