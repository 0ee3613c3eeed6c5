"""Many chats of one process leave nothing open and cost what was served.

They succeed, fail and are cancelled.
"""

import asyncio
import itertools
from pathlib import Path

import pytest

from tests.integration.workflows.faulty_server import FaultyEnd, FaultyReply, answer, call, faulty_server, refusal
from tests.integration.workflows.leaks import checking_leaks
from tests.integration.workflows.test_model_failures import chat_with, half_answer
from tests.unit.workflows.chats import Chat, ChatRecorder
from workflows.outcome import OutcomeKind

pytestmark = pytest.mark.integration

TOOLS = """
import asyncio, time

def plain():
    time.sleep(0.01)

async def on_the_loop():
    await asyncio.sleep(0.01)
"""


def bad_day(stream: bool) -> list[FaultyReply]:
    tools = answer(None, call("plain"), call("on_the_loop", number=2), stream=stream)
    good = answer("ok", stream=stream)
    bad = [
        refusal(429),
        refusal(500),
        half_answer(stream, FaultyEnd.CLOSE),
        FaultyReply([FaultyEnd.RESET]),
        FaultyReply([0.05, FaultyEnd.CLOSE]),
    ]
    # So many good ones that some of 75 chats meet no other, in whatever order they come by.
    return list(itertools.islice(itertools.cycle([tools, *[good] * 7, *bad]), 400))


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_many_chats_at_once_leave_nothing_behind(tmp_path: Path, stream: bool) -> None:
    kept = [ChatRecorder() for _ in range(100)]
    async with checking_leaks(within_s=5), faulty_server(*bad_day(stream)) as server:
        # A hundred that begin at once are slower than one; none of these may time out.
        async with chat_with(server.url, tmp_path, stream=stream, tools=TOOLS, model_s=20) as chat:
            tasks = [asyncio.create_task(Chat(chat.built).run(each)) for each in kept]
            for number, task in enumerate(tasks):
                if number % 4 == 0:
                    asyncio.get_running_loop().call_later(0.001 * number, task.cancel)
            async with asyncio.timeout(30):
                ended = await asyncio.gather(*tasks, return_exceptions=True)
        calls = [call for each in kept for call in each.calls]
        assert len(calls) >= len(server.requests)
        known = sum(call.tokens.input for call in calls)
        lost = 10 * sum(call.error == "Cancelled" for call in calls)  # answered after its client had gone
        assert known <= server.input_tokens <= known + lost

    kinds = {each[0].kind for each in ended if isinstance(each, tuple)}
    assert kinds == {OutcomeKind.COMPLETED, OutcomeKind.MODEL_ERROR}
    assert all(isinstance(each, tuple | asyncio.CancelledError) for each in ended)


async def test_one_process_that_runs_chat_after_chat_opens_one_connection(tmp_path: Path) -> None:
    async with checking_leaks(), faulty_server(answer("ok")) as server:
        async with chat_with(server.url, tmp_path, stream=False) as chat:
            for _ in range(20):
                outcome, _ = await chat.run()
                assert outcome.kind is OutcomeKind.COMPLETED
        assert (len(server.requests), server.connections) == (20, 1)
