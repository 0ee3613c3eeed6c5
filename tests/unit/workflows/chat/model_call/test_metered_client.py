"""The meter: records every call once, before its answer is used, however it ends."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest
from ag2.config import LLMClient
from ag2.events import ModelMessage, ModelResponse, ToolCallEvent, ToolCallsEvent, Usage

from accounting.budgets.reservation_types import PlannedCall, Settle
from accounting.token_normalization import normalize_openai
from accounting.usage import BegunCall, ModelCall, Tokens
from workflows.chat.chat_errors import LimitReached, ModelError
from workflows.chat.chat_state import ChatTimeouts, LiveTurn
from workflows.chat.model_call.metered_client import MeteredClient, RunMeter
from workflows.chat.model_call.open_call import MeteredModel
from workflows.chat.model_call.turn_client import repair_arguments
from workflows.spans import NO_SPANS

Answer = Callable[[], Awaitable[ModelResponse]]


@dataclass
class FakeLedger:
    calls: list[ModelCall] = field(default_factory=list)
    hold: asyncio.Event | None = None
    writing: asyncio.Event = field(default_factory=asyncio.Event)
    error: Exception | None = None

    async def record(self, call: ModelCall) -> None:
        self.writing.set()
        if self.hold is not None:
            await self.hold.wait()
        if self.error is not None:
            raise self.error
        self.calls.append(call)


class FakeModel:
    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    async def __call__(self, *_: Any, **__: Any) -> ModelResponse:
        return await self._answer()


def explain(error: Exception) -> ModelError | None:
    return ModelError("explained", transient=True) if isinstance(error, OSError) else None


@dataclass
class MeterBench:
    """A metered model, the turn that calls it, and the ledger it writes to."""

    answer: Answer
    book: FakeLedger = field(default_factory=FakeLedger)
    max_calls: int = 10

    def __post_init__(self) -> None:
        limits = SimpleNamespace(model_calls=self.max_calls, tokens=None, usd=None)
        package = SimpleNamespace(orchestrator=SimpleNamespace(limits=limits))
        self.run = RunMeter(self.book.record)
        self.chat: Any = SimpleNamespace(
            meter=self.run, counters=self.run.counters, package=package, spans=NO_SPANS, timeouts=ChatTimeouts()
        )
        self.turn = LiveTurn(cast("Any", self.chat), "A", 1)
        self.client = MeteredClient(
            cast("LLMClient", FakeModel(self.answer)),
            MeteredModel("openai", "m", normalize_openai),
            explain=explain,
        )

    async def ask(self) -> ModelResponse:
        context: Any = SimpleNamespace(prompt=[])
        with self.turn.as_current():
            return await self.client([], context)


def response(*calls: ToolCallEvent, usage: Usage | None = None) -> ModelResponse:
    used = Usage(prompt_tokens=10, completion_tokens=2) if usage is None else usage
    return ModelResponse(message=ModelMessage("ok"), tool_calls=ToolCallsEvent(list(calls)), usage=used)


async def answer_at_once() -> ModelResponse:
    return response()


async def never() -> ModelResponse:
    await asyncio.Event().wait()
    raise AssertionError


async def test_a_good_call_is_recorded_before_its_answer_is_given() -> None:
    desk = MeterBench(answer_at_once)

    answer = await desk.ask()

    assert answer.content == "ok"
    [call] = desk.book.calls
    assert (call.number, call.agent, call.provider, call.model) == (1, "A", "openai", "m")
    assert (call.ok, call.status, call.error, call.tokens) == (True, "reported", None, Tokens(input=10, output=2))
    assert desk.turn.tokens == {"input": 10, "output": 2}


async def test_calls_are_numbered_over_all_turns_of_a_run() -> None:
    desk = MeterBench(answer_at_once)
    await desk.ask()
    desk.turn = LiveTurn(desk.chat, "B", 2)
    await desk.ask()

    assert [(call.number, call.agent) for call in desk.book.calls] == [(1, "A"), (2, "B")]
    assert desk.turn.tokens == {"input": 10, "output": 2}


async def test_an_answer_without_usage_is_estimated_rather_than_free() -> None:
    async def silent() -> ModelResponse:
        return response(usage=Usage())

    desk = MeterBench(silent)
    await desk.ask()

    [call] = desk.book.calls
    assert (call.status, call.ok, call.tokens) == ("estimated", True, Tokens(input=1, output=1))
    assert desk.run.counters.tokens == 2


async def test_a_call_is_known_before_it_is_made() -> None:
    steps: list[str] = []

    async def asked() -> ModelResponse:
        steps.append("asked")
        return response()

    async def reserve(_: PlannedCall) -> Settle:
        steps.append("reserved")
        return settle

    async def settle(_: ModelCall) -> None:
        steps.append("settled")

    async def begin(call: BegunCall) -> None:
        steps.append(f"begun {call.number} {call.within_s}")

    desk = MeterBench(asked)
    desk.run.reserve, desk.run.begin = reserve, begin
    await desk.ask()

    assert steps == ["reserved", "begun 1 None", "asked", "settled"]


@pytest.mark.parametrize("error", [OSError("the ledger is away"), asyncio.CancelledError()])
async def test_a_call_that_cannot_be_made_known_is_not_made_and_costs_nothing(error: BaseException) -> None:
    settled: list[ModelCall] = []

    async def reserve(_: PlannedCall) -> Settle:
        return settle

    async def settle(call: ModelCall) -> None:
        settled.append(call)

    async def begin(_: BegunCall) -> None:
        raise error

    desk = MeterBench(never)
    desk.run.reserve, desk.run.begin = reserve, begin
    with pytest.raises(type(error)):
        await desk.ask()

    assert [(call.status, call.ok, call.tokens) for call in settled] == [("missing", False, Tokens())]
    assert (desk.book.calls, desk.run.counters.model_calls, desk.run.pending_calls) == ([], 0, 0)


@pytest.mark.parametrize(
    ("error", "seen", "transient"),
    [
        (OSError("x"), ModelError, True),
        (ModelError("x", transient=False), ModelError, False),
        (ZeroDivisionError(), ModelError, False),
    ],
)
async def test_a_failed_call_is_recorded_once_and_explained(
    error: Exception,
    seen: type[Exception],
    transient: bool,
) -> None:
    async def fails() -> ModelResponse:
        raise error

    desk = MeterBench(fails)

    with pytest.raises(seen) as caught:
        await desk.ask()

    assert getattr(caught.value, "transient", None) is transient
    assert [(call.ok, call.status, call.error) for call in desk.book.calls] == [
        (False, "missing", type(error).__name__)
    ]
    assert desk.run.counters.failed == {"A": 1}


async def test_an_answer_that_is_none_is_recorded_with_what_it_used() -> None:
    desk = MeterBench(answer_at_once)
    desk.client = MeteredClient(
        cast("LLMClient", FakeModel(answer_at_once)),
        MeteredModel("openai", "m", normalize_openai),
        explain=explain,
        find_fault=lambda answer: ModelError(f"no answer: {answer.content}", transient=False),
    )

    with pytest.raises(ModelError, match=r"^no answer: ok$"):
        await desk.ask()

    [call] = desk.book.calls
    assert (call.ok, call.status, call.error, call.tokens) == (
        False,
        "reported",
        "ModelError",
        Tokens(input=10, output=2),
    )
    assert (desk.run.counters.failed, desk.turn.answer_counts) == ({"A": 1}, {})


async def test_a_cancelled_call_is_recorded_once_and_stays_cancelled() -> None:
    asked = asyncio.Event()

    async def hangs() -> ModelResponse:
        asked.set()
        return await never()

    desk = MeterBench(hangs)
    task = asyncio.create_task(desk.ask())
    await asked.wait()

    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert [(call.ok, call.status, call.error) for call in desk.book.calls] == [(False, "missing", "Cancelled")]
    assert desk.run.counters.failed == {}


@pytest.mark.parametrize("cancels", [1, 3])
async def test_a_cancel_during_the_record_waits_until_it_is_written(cancels: int) -> None:
    desk = MeterBench(answer_at_once, FakeLedger(hold=asyncio.Event()))
    task = asyncio.create_task(desk.ask())
    await desk.book.writing.wait()

    for _ in range(cancels):
        task.cancel()
        await asyncio.sleep(0)
        assert not task.done()
    assert desk.book.hold is not None
    desk.book.hold.set()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert [(call.ok, call.tokens.input) for call in desk.book.calls] == [(True, 10)]


async def test_a_timeout_during_the_record_is_a_timeout_after_it() -> None:
    desk = MeterBench(answer_at_once, FakeLedger(hold=asyncio.Event()))
    assert desk.book.hold is not None
    asyncio.get_running_loop().call_later(0.02, desk.book.hold.set)

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.001):
            await desk.ask()

    assert len(desk.book.calls) == 1


async def test_an_answer_that_could_not_be_recorded_is_not_given() -> None:
    desk = MeterBench(answer_at_once, FakeLedger(error=ConnectionError("ledger away")))

    with pytest.raises(ConnectionError):
        await desk.ask()


@dataclass
class PausingBudget:
    """A budget that pauses where the test wants it, and counts reservations."""

    waits_in: str
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    go_on: asyncio.Event = field(default_factory=asyncio.Event)
    settled_calls: int = 0
    settled: list[ModelCall] = field(default_factory=list)

    async def reserve(self, _: PlannedCall) -> Settle:
        await self._pause_at("reserve")
        self.settled_calls += 1
        return self.settle

    async def settle(self, call: ModelCall) -> None:
        await self._pause_at("settle")
        self.settled.append(call)

    async def _pause_at(self, place: str) -> None:
        if place == self.waits_in:
            self.reached.set()
            await self.go_on.wait()


async def test_a_cancel_while_money_is_reserved_makes_no_call() -> None:
    desk, till = MeterBench(answer_at_once), PausingBudget("reserve")
    desk.run.reserve = till.reserve
    task = asyncio.create_task(desk.ask())
    await till.reached.wait()

    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert (till.settled_calls, till.settled, desk.book.calls) == (0, [], [])
    assert (desk.run.counters.model_calls, desk.run.pending_calls) == (0, 0)


async def test_a_cancel_while_money_is_settled_waits_until_it_is() -> None:
    desk, till = MeterBench(answer_at_once), PausingBudget("settle")
    desk.run.reserve = till.reserve
    task = asyncio.create_task(desk.ask())
    await till.reached.wait()

    task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    till.go_on.set()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert till.settled == desk.book.calls
    assert len(desk.book.calls) == 1


async def test_money_is_settled_also_when_the_call_could_not_be_recorded() -> None:
    desk, till = MeterBench(answer_at_once, FakeLedger(error=ConnectionError("ledger away"))), PausingBudget("nowhere")
    desk.run.reserve = till.reserve

    with pytest.raises(ConnectionError):
        await desk.ask()

    assert len(till.settled) == till.settled_calls == 1


async def test_a_call_its_library_gives_up_has_failed_and_cancels_no_task() -> None:
    async def gives_up() -> ModelResponse:
        raise asyncio.CancelledError

    desk = MeterBench(gives_up)

    with pytest.raises(ModelError) as caught:
        await desk.ask()

    assert caught.value.transient
    assert [call.error for call in desk.book.calls] == ["Cancelled"]


async def test_calls_above_the_limit_are_not_made() -> None:
    made = 0

    async def count_call() -> ModelResponse:
        nonlocal made
        made += 1
        return response()

    desk = MeterBench(count_call, max_calls=2)
    await desk.ask()
    await desk.ask()

    with pytest.raises(LimitReached, match="limit of 2 model calls"):
        await desk.ask()

    assert (made, len(desk.book.calls)) == (2, 2)


@pytest.mark.parametrize(
    "arguments",
    ["{", "[1]", "5", "null", '"text"', "{'a': 1}", "[" * 100_000, '{"a": ' + "9" * 5000 + "}", '{"a": 1} {}'],
)
async def test_arguments_that_are_no_json_object_reach_the_tool_for_refusal(arguments: str) -> None:
    async def calls() -> ModelResponse:
        return response(ToolCallEvent(id="1", name="t", arguments=arguments))

    answer = repair_arguments(await MeterBench(calls).ask())

    [call] = answer.tool_calls.calls
    assert call.serialized_arguments == {"unreadable_arguments": arguments[:200]}


@pytest.mark.parametrize("arguments", ["", "{}", '{"a": {"b": [1]}}', ' {"a": 1} '])
async def test_readable_arguments_stay_as_they_are(arguments: str) -> None:
    async def calls() -> ModelResponse:
        return response(ToolCallEvent(id="1", name="t", arguments=arguments))

    answer = repair_arguments(await MeterBench(calls).ask())

    assert answer.tool_calls.calls[0].arguments == arguments
