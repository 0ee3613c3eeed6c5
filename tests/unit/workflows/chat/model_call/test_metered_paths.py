"""The meter on every path by which AG2 calls a model, one record for each call.

Records name the asking agent, also on a throwaway context.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ag2 import Agent, KnowledgeConfig
from ag2.agent import TaskConfig
from ag2.compact import CompactTrigger, SummarizeCompact
from ag2.knowledge import MemoryKnowledgeStore
from ag2.middleware import RetryMiddleware

from accounting.budgets.reservation_types import PlannedCall, Settle, reserve_unlimited
from accounting.usage import ModelCall
from tests.unit.workflows.chats import Chat, ChatRecorder, build_chat
from tests.unit.workflows.packages import ORCHESTRATOR, load
from workflows.chat.model_call.turn_client import ChatModelConfig
from workflows.outcome import OutcomeKind

Entries = Sequence[dict[str, Any]]


def entry(text: str = "ok", **fields: Any) -> dict[str, Any]:
    return {"text": text, "usage": {"input": 10, "output": 2}, **fields}


def calls(name: str, *arguments: dict[str, Any]) -> dict[str, Any]:
    made = [{"name": name, "arguments": each} for each in arguments]
    return {"tool_calls": made, "usage": {"input": 10, "output": 2}}


def chat(folder: Path, entries: Entries, **limits: Any) -> tuple[Chat, ChatModelConfig]:
    """Makes a package of one agent, and the model for an AG2 agent of the test's own."""
    package = load(folder, orchestrator={**ORCHESTRATOR, "limits": limits}, agents=[{"name": "A"}])
    made = build_chat(package, {"answers": {"A": list(entries)}}, folder)
    config = made.agents["A"].config
    assert isinstance(config, ChatModelConfig)
    return Chat(made), config


def with_agent(agent: Agent, chat: Chat) -> Chat:
    return replace(chat, built=replace(chat.built, agents={"A": agent}))


def recorded_calls(recorder: ChatRecorder) -> list[tuple[int, bool, str, int]]:
    return [(call.number, call.ok, call.agent, call.tokens.input) for call in recorder.calls]


async def test_a_call_that_is_tried_again_is_a_record_for_each_try(tmp_path: Path) -> None:
    small, config = chat(tmp_path, [{"error": 503}, {"error": 503}, entry()])
    agent = Agent("A", config=config, middleware=[RetryMiddleware(max_retries=3)])

    outcome, kept = await with_agent(agent, small).run()

    assert outcome.kind is OutcomeKind.COMPLETED
    assert recorded_calls(kept) == [(1, False, "A", 0), (2, False, "A", 0), (3, True, "A", 10)]


async def test_concurrent_sub_tasks_are_metered_under_the_agent_that_gave_them(tmp_path: Path) -> None:
    entries = [calls("run_subtasks", {"tasks": ["x", "y", "z"]}), *[entry(delay_s=0.001)] * 3, entry("all done")]
    small, config = chat(tmp_path, entries)

    outcome, kept = await with_agent(Agent("A", config=config, tasks=TaskConfig()), small).run()

    assert outcome.kind is OutcomeKind.COMPLETED
    assert sorted(recorded_calls(kept)) == [(number, True, "A", 10) for number in range(1, 6)]
    assert kept.turn(1).tokens == {"input": 50, "output": 10}


async def test_another_agent_as_a_tool_is_metered_under_its_caller(tmp_path: Path) -> None:
    small, config = chat(tmp_path, [calls("task_helper", {"objective": "help"}), entry("helped"), entry("done")])
    helper = Agent("helper", config=config)
    agent = Agent("A", config=config, tools=[helper.as_tool(description="helps", name="task_helper")])

    _, kept = await with_agent(agent, small).run()

    assert recorded_calls(kept) == [(number, True, "A", 10) for number in (1, 2, 3)]
    assert kept.turn(1).text == "done"


async def test_a_sub_task_that_fails_is_recorded_and_reported_to_its_agent(tmp_path: Path) -> None:
    small, config = chat(tmp_path, [calls("run_subtask", {"task": "x"}), {"error": 500}, entry("without it")])

    outcome, kept = await with_agent(Agent("A", config=config, tasks=TaskConfig()), small).run()

    assert outcome.kind is OutcomeKind.COMPLETED
    assert [each[:2] for each in recorded_calls(kept)] == [(1, True), (2, False), (3, True)]


async def test_sub_tasks_at_once_do_not_go_beyond_the_limit_of_calls(tmp_path: Path) -> None:
    """Each would be allowed alone, and AG2 turns the stopping error into a result."""
    entries = [calls("run_subtasks", {"tasks": [f"{number}" for number in range(8)]}), *[entry(delay_s=0.001)] * 20]
    small, config = chat(tmp_path, entries, model_calls=4)

    async def slowly(_: PlannedCall) -> Settle:
        await asyncio.sleep(0.001)
        return settle_nothing

    async def settle_nothing(_: ModelCall) -> None: ...

    small.reserve = slowly

    asked = with_agent(Agent("A", config=config, tasks=TaskConfig()), small)
    outcome, kept = await asked.run()

    assert outcome.kind is OutcomeKind.LOOP_DETECTED
    assert outcome.error is not None
    assert (outcome.error.agent, outcome.error.turn) == ("A", 1)
    assert asked.last is not None
    assert len(kept.calls) == asked.last.counters.model_calls == 4
    assert len({call.number for call in kept.calls}) == 4


async def test_a_sub_task_whose_usage_could_not_be_recorded_ends_the_chat(tmp_path: Path) -> None:
    class Away(ChatRecorder):
        async def record(self, call: ModelCall) -> None:
            if call.number == 2:
                raise ConnectionError("the ledger is away")
            await super().record(call)

    entries = [calls("run_subtask", {"task": "x"}), entry(), entry("never said")]
    small, config = chat(tmp_path, entries)
    kept = Away()

    with pytest.raises(ConnectionError):
        await with_agent(Agent("A", config=config, tasks=TaskConfig()), small).run(kept)

    assert len(kept.calls) == 1


async def test_a_sub_task_that_is_cancelled_is_recorded(tmp_path: Path) -> None:
    small, config = chat(tmp_path, [calls("run_subtasks", {"tasks": ["x", "y"]}), *[entry(delay_s=60)] * 2])
    kept, both = ChatRecorder(), asyncio.Event()

    async def reserve(call: PlannedCall) -> Settle:
        if call.number == 3:
            asyncio.get_running_loop().call_soon(both.set)
        return await reserve_unlimited(call)

    small.reserve = reserve
    asked = with_agent(Agent("A", config=config, tasks=TaskConfig()), small)
    task = asyncio.create_task(asked.run(kept))
    async with asyncio.timeout(5):
        await both.wait()

    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    ended = sorted((call.number, call.error) for call in kept.calls)  # a group cancels its tasks in any order
    assert ended == [(1, None), (2, "Cancelled"), (3, "Cancelled")]


@pytest.mark.parametrize("limit", [1, 2])
async def test_a_summary_of_the_history_is_recorded_and_limited(tmp_path: Path, limit: int) -> None:
    small, config = chat(tmp_path, [entry("said"), entry("a summary")], model_calls=limit)
    knowledge = KnowledgeConfig(
        store=MemoryKnowledgeStore(),
        expose_tool=False,
        compact=SummarizeCompact(1, config),
        compact_trigger=CompactTrigger(max_events=1),
    )

    outcome, kept = await with_agent(Agent("A", config=config, knowledge=knowledge), small).run()

    assert outcome.kind is (OutcomeKind.COMPLETED if limit == 2 else OutcomeKind.LOOP_DETECTED)
    assert [turn.text for turn in kept.turns] == (["said"] if limit == 2 else [])
    assert recorded_calls(kept) == [(1, True, "A", 10), (2, True, "A", 10)][:limit]
