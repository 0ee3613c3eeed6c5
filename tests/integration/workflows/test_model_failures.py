"""Whole chats against faulty model servers: outcome, duration, leftovers and cost."""

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from accounting.budgets.reservation_types import PlannedCall, Settle
from accounting.usage import ModelCall
from tests.integration.workflows.cancellation_points import cancel_at
from tests.integration.workflows.faulty_server import (
    FaultyEnd,
    FaultyReply,
    FaultyServer,
    answer,
    body_of,
    call,
    chunks,
    faulty_server,
    http,
    refusal,
    streamed,
)
from tests.integration.workflows.leaks import checking_leaks
from tests.unit.workflows.chats import Chat, ChatRecorder
from tests.unit.workflows.packages import ORCHESTRATOR, load, rule, write_tool
from workflows.chat.agents.built_packages import build_package
from workflows.chat.package_code.tool_threads import ToolThreads
from workflows.chat.providers.model_registry import ModelRegistry
from workflows.models_file import OpenAIModel
from workflows.outcome import Outcome, OutcomeKind

pytestmark = pytest.mark.integration

MODEL_S = 0.5  # a model's own time
DEADLINE_S = 5.0  # of a whole chat, whatever happens in it
KIND = OutcomeKind


@asynccontextmanager
async def chat_with(
    url: str,
    folder: Path,
    *,
    stream: bool,
    tools: str | None = None,
    threads: int = 4,
    model_s: float = MODEL_S,
    **files: Any,
) -> AsyncIterator[Chat]:
    """Builds a chat of agent A with these tools; closes its clients and threads."""
    if tools is not None:
        write_tool(folder, "tools.py", tools)
        names = [
            line.split("(")[0].split()[-1] for line in tools.splitlines() if line.startswith(("def ", "async def "))
        ]
        files["tools"] = [{"agent": "A", "file": "tools.py", "function": name, "timeout": 0.3} for name in names]
    package = load(folder, **files)
    assert not package.is_refused, package.findings
    spec = OpenAIModel(provider="openai", model="m", base_url=url, stream=stream, timeout=timedelta(seconds=model_s))
    models, pool = ModelRegistry({"default": spec}, str), ToolThreads(threads, name="failing-tools")
    try:
        yield Chat(build_package(package, models, pool))
    finally:
        await models.close()
        pool.close()


async def run_to_end(
    chat: Chat, recorder: ChatRecorder | None = None, *, within_s: float = DEADLINE_S
) -> tuple[Outcome, ChatRecorder]:
    async with asyncio.timeout(within_s):
        return await chat.run_to_its_close(recorder)


def check_usage(recorder: ChatRecorder, server: FaultyServer) -> None:
    """Checks that nothing served is missing or counted twice; estimates do not count."""
    assert len(recorder.calls) == len(server.requests)
    assert len({each.number for each in recorder.calls}) == len(recorder.calls)
    served = [each.tokens for each in recorder.calls if each.status != "estimated"]
    assert sum(each.input for each in served) == server.input_tokens
    assert sum(each.output for each in served) == server.output_tokens


def half_answer(stream: bool, end: FaultyEnd) -> FaultyReply:
    if stream:
        events = chunks("half of it", (), finish=None, usage=None)
        return FaultyReply([*streamed(events, end=False), end])
    whole = http(200, json.dumps(body_of("chat.completion", [], None)).encode())
    return FaultyReply([whole[:-20], end])


SLOW_HEAD = FaultyReply(
    [b"HTTP/1.1 200 OK\r\n", 0.3, b"content-type: application/json\r\n", 0.3, b"x: y\r\n", FaultyEnd.HANG]
)


def empty_choices(stream: bool) -> FaultyReply:
    if stream:
        return FaultyReply(
            streamed([b"data: " + json.dumps(body_of("chat.completion.chunk", [], None)).encode() + b"\n\n"])
        )
    return FaultyReply([http(200, json.dumps(body_of("chat.completion", [], None)).encode())])


def garbage(stream: bool) -> FaultyReply:
    return (
        FaultyReply(streamed([b"data: {not json\n\n"])) if stream else FaultyReply([http(200, b"<html>welcome</html>")])
    )


IN_AN_HOUR = format_datetime(datetime.now(UTC) + timedelta(minutes=50), usegmt=True)
# What the server does, and whether another attempt may help.
FAILURES: dict[str, tuple[Callable[[bool], FaultyReply], bool]] = {
    "400": (lambda _: refusal(400), False),
    "401": (lambda _: refusal(401), False),
    "404": (lambda _: refusal(404), False),
    "429": (lambda _: refusal(429), True),
    "500": (lambda _: refusal(500), True),
    "503": (lambda _: refusal(503), True),
    "garbage": (garbage, True),
    "no choices": (empty_choices, True),
    "an empty text": (lambda stream: answer("", stream=stream), True),
    "content filter": (lambda stream: answer("no", stream=stream, finish="content_filter"), False),
    "half, then closed": (lambda stream: half_answer(stream, FaultyEnd.CLOSE), True),
    "half, then cut off": (lambda stream: half_answer(stream, FaultyEnd.RESET), True),
    "half, then nothing": (lambda stream: half_answer(stream, FaultyEnd.HANG), True),
    "nothing at all": (lambda _: FaultyReply([FaultyEnd.HANG]), True),
    "closed at once": (lambda _: FaultyReply([FaultyEnd.CLOSE]), True),
    "cut off at once": (lambda _: FaultyReply([FaultyEnd.RESET]), True),
    "slow headers": (lambda _: SLOW_HEAD, True),
    "no HTTP": (lambda _: FaultyReply([b"220 mail.example.com ESMTP\r\n", FaultyEnd.CLOSE]), True),
}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("failure", FAILURES)
async def test_a_failing_model_is_a_model_error_marked_transient_or_not(
    tmp_path: Path, failure: str, stream: bool
) -> None:
    reply, transient = FAILURES[failure]
    async with checking_leaks(), faulty_server(reply(stream)) as server:
        async with chat_with(server.url, tmp_path, stream=stream) as chat:
            began = time.monotonic()
            outcome, kept = await run_to_end(chat)
            took_s = time.monotonic() - began

        check_usage(kept, server)
    assert (outcome.kind, outcome.transient) == (KIND.MODEL_ERROR, transient), outcome
    assert outcome.error is not None
    assert (outcome.error.agent, outcome.error.turn) == ("A", 1)
    assert took_s < MODEL_S + 1
    assert [each.ok for each in kept.calls] == [failure in ("an empty text", "no choices") and kept.calls[0].ok]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    ("said", "least_s", "most_s"),
    [("7", 7, 7), ("0.5", 0.5, 0.5), (IN_AN_HOUR, 60, 3600)],
    ids=["seconds", "half a second", "a date"],
)
async def test_a_server_that_names_a_time_is_given_it(
    tmp_path: Path, stream: bool, said: str, least_s: float, most_s: float
) -> None:
    async with checking_leaks(), faulty_server(refusal(429, {"retry-after": said})) as server:
        async with chat_with(server.url, tmp_path, stream=stream) as chat:
            outcome, kept = await run_to_end(chat)
        check_usage(kept, server)

    assert outcome.retry_after_s is not None
    assert least_s <= outcome.retry_after_s <= most_s


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_a_closed_port_is_a_transient_model_error(tmp_path: Path, stream: bool) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/v1"
        async with checking_leaks(), chat_with(url, tmp_path, stream=stream) as chat:
            outcome, kept = await run_to_end(chat)

    assert (outcome.kind, outcome.transient) == (KIND.MODEL_ERROR, True)
    assert [(each.ok, each.status) for each in kept.calls] == [(False, "missing")]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_a_silent_server_is_cut_off_by_the_wall_clock(tmp_path: Path, stream: bool) -> None:
    async with checking_leaks(), faulty_server(FaultyReply([FaultyEnd.HANG])) as server:
        async with chat_with(server.url, tmp_path, stream=stream) as chat:
            chat.wall_clock_s = 0.1
            outcome, kept = await run_to_end(chat)
        check_usage(kept, server)

    assert outcome.kind is KIND.TIMEOUT
    assert [each.error for each in kept.calls] == ["Cancelled"]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("told", [(10, 2), None], ids=["told", "not told"])
async def test_a_huge_answer_is_an_answer(tmp_path: Path, stream: bool, told: tuple[int, int] | None) -> None:
    text = "word " * 100_000 if not stream else "x" * 400_000
    async with checking_leaks(), faulty_server(answer(text, stream=stream, counts=told)) as server:
        async with chat_with(server.url, tmp_path, stream=stream) as chat:
            outcome, kept = await run_to_end(chat)
        check_usage(kept, server)

    assert outcome.kind is KIND.COMPLETED
    assert len(kept.turn(1).text) == len(text)
    assert [each.status for each in kept.calls] == ["estimated" if told is None else "reported"]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_usage_before_a_failure_is_recorded_and_the_next_attempt_resumes(tmp_path: Path, stream: bool) -> None:
    """The first attempt loses its second turn; the second one resumes after the first."""
    rules = {"handoff_rules": [rule("A", "B"), rule("B", "terminate")]}
    replies = [answer("one", stream=stream), refusal(503), answer("two", stream=stream)]
    async with checking_leaks(), faulty_server(*replies) as server:
        async with chat_with(server.url, tmp_path, stream=stream, handoffs=rules) as chat:
            kept = ChatRecorder()
            first, _ = await run_to_end(chat, kept)
            again, _ = await run_to_end(chat, kept)
        assert (len(kept.calls), len(server.requests)) == (3, 3)
        assert sum(each.tokens.input for each in kept.calls) == server.input_tokens == 20

    assert (first.kind, again.kind, kept.speakers) == (KIND.MODEL_ERROR, KIND.COMPLETED, ["A", "B"])


BAD_TOOLS = """
import asyncio, sys, time

def raises():
    raise RuntimeError("it failed")

def leaves():
    sys.exit(3)

async def leaves_async():
    sys.exit(3)

def sleeps():
    end = time.monotonic() + 3
    while time.monotonic() < end:
        time.sleep(0.01)

async def waits():
    await asyncio.Event().wait()

async def cancels_itself():
    asyncio.current_task().cancel()
    await asyncio.sleep(0)

async def says_cancelled():
    raise asyncio.CancelledError

def floods():
    return "x" * 10_000_000

def interrupts():
    raise KeyboardInterrupt
"""


@pytest.mark.parametrize(
    "name",
    ["raises", "leaves", "leaves_async", "sleeps", "waits", "cancels_itself", "says_cancelled", "floods", "interrupts"],
)
async def test_a_bad_tool_is_reported_to_its_model_and_the_chat_goes_on(tmp_path: Path, name: str) -> None:
    async with checking_leaks(within_s=5), faulty_server(answer(None, call(name)), answer("went on")) as server:
        async with chat_with(server.url, tmp_path, stream=False, tools=BAD_TOOLS) as chat:
            outcome, kept = await run_to_end(chat)
        check_usage(kept, server)
        told = [each for each in server.requests[1]["messages"] if each["role"] == "tool"]

    assert (outcome.kind, kept.turn(1).text) == (KIND.COMPLETED, "went on")
    assert len(told) == 1
    assert 0 < len(told[0]["content"]) < 200_000


async def test_a_thousand_tool_calls_in_one_answer_are_refused_by_the_limit(tmp_path: Path) -> None:
    many = [call("count", number=number) for number in range(1000)]
    tools = "def count(context_variables):\n    context_variables['n'] = context_variables.get('n', 0) + 1\n"
    async with checking_leaks(), faulty_server(answer(None, *many)) as server:
        async with chat_with(server.url, tmp_path, stream=False, tools=tools) as chat:
            outcome, kept = await run_to_end(chat)
            assert chat.last is not None
            assert "n" not in chat.last.context
        check_usage(kept, server)

    assert (outcome.kind, outcome.error and outcome.error.turn) == (KIND.LOOP_DETECTED, 1)


async def test_a_thousand_tool_calls_that_are_allowed_all_run(tmp_path: Path) -> None:
    many = [call("count", number=number) for number in range(1000)]
    tools = (
        "MADE = []\nasync def count(context_variables):\n    MADE.append(1)\n    context_variables['n'] = len(MADE)\n"
    )
    limited = {**ORCHESTRATOR, "limits": {"tool_calls": 1000}}
    async with checking_leaks(), faulty_server(answer(None, *many), answer("counted")) as server:
        # Two answers as long as these take their time to read, and AG2 looks at each call for each of them.
        own = chat_with(server.url, tmp_path, stream=False, tools=tools, model_s=60, orchestrator=limited)
        async with own as chat:
            outcome, kept = await run_to_end(chat, within_s=60)
        check_usage(kept, server)

    assert (outcome.kind, kept.context(1)["n"]) == (KIND.COMPLETED, 1000)


PLAIN_AND_ASYNC = """
import asyncio

def plain(context_variables):
    context_variables["p"] = 1

async def async_one():
    await asyncio.sleep(0)
"""


class RecordingBudget:
    def __init__(self) -> None:
        self.reserved: list[int] = []
        self.settled: list[int] = []

    async def reserve(self, planned: PlannedCall) -> Settle:
        await asyncio.sleep(0)
        self.reserved.append(planned.number)
        return self._settle

    async def _settle(self, call: ModelCall) -> None:
        await asyncio.sleep(0)
        self.settled.append(call.number)


class SlowRecorder(ChatRecorder):
    async def record(self, call: ModelCall) -> None:
        await asyncio.sleep(0)
        await super().record(call)

    async def commit(self, number: int, turn: Any, checkpoint: Any) -> None:
        await asyncio.sleep(0)
        await super().commit(number, turn, checkpoint)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_a_chat_cancelled_at_any_await_leaves_nothing_and_loses_no_record(tmp_path: Path, stream: bool) -> None:
    """Each await until none cancels: models, tools in threads and on the loop, ledger."""
    tools = PLAIN_AND_ASYNC
    replies = [answer(None, call("plain"), call("async_one", number=2), stream=stream), answer("done", stream=stream)]
    for step in range(1, 500):
        async with checking_leaks(), faulty_server(*replies) as server:
            async with chat_with(server.url, tmp_path / str(step), stream=stream, tools=tools) as chat:
                budget, kept = RecordingBudget(), SlowRecorder()
                chat.reserve = budget.reserve
                async with asyncio.timeout(DEADLINE_S):
                    was_cancelled = await cancel_at(step, partial(chat.run, kept))
            assert len(kept.calls) >= len(server.requests)
            assert len({each.number for each in kept.calls}) == len(kept.calls)
            assert budget.reserved == budget.settled == [each.number for each in kept.calls]
            for each in kept.calls:
                assert (each.error, each.tokens.input) in [(None, 10), ("Cancelled", 0)]
        if not was_cancelled:
            break
    assert step > 20
    check_usage(kept, server)
    assert kept.turn(1).text == "done"
