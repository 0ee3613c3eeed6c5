"""The worker loop goes on, whatever code of packages raises in it."""

import asyncio
import logging
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from workers.process.event_loop import WorkerLoop
from workflows.chat.package_code.invocation import PackageCodeError, invoke
from workflows.chat.package_code.tool_threads import ToolThreads

Submit = Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.fixture
def submit() -> Iterator[Submit]:
    """Submits as the pool threads of a worker do."""
    loop = WorkerLoop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    yield lambda work: asyncio.run_coroutine_threadsafe(work, loop).result(5)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(5)
    assert not thread.is_alive()
    loop.close()


async def exit_process() -> None:
    sys.exit("away")


async def interrupt() -> None:
    raise KeyboardInterrupt("away")


@pytest.mark.parametrize(
    ("how", "error"),
    [
        # A task of its own: from Python 3.12 on `wait_for` makes none.
        (lambda: asyncio.wait_for(asyncio.create_task(exit_process()), 1), SystemExit),
        (lambda: asyncio.gather(exit_process(), asyncio.sleep(0)), SystemExit),
        (lambda: asyncio.create_task(interrupt()), KeyboardInterrupt),
    ],
    ids=["wait_for", "gather", "a task"],
)
def test_a_tool_gets_what_its_own_tasks_raise_and_the_loop_goes_on(
    submit: Submit, caplog: pytest.LogCaptureFixture, how: Callable[[], Any], error: type[BaseException]
) -> None:
    async def tool() -> None:
        await how()

    with caplog.at_level(logging.WARNING), pytest.raises(PackageCodeError, match="away") as raised:
        submit(invoke(tool, keywords={}, threads=ToolThreads(1)))

    assert isinstance(raised.value.error, error)
    assert "loop_goes_on" in caplog.messages
    assert submit(asyncio.sleep(0, "on")) == "on"


def test_what_a_tool_awaits_within_a_time_ends_that_tool_alone(submit: Submit) -> None:
    async def tool() -> None:
        await asyncio.wait_for(exit_process(), 1)

    with pytest.raises(PackageCodeError, match="away") as raised:
        submit(invoke(tool, keywords={}, threads=ToolThreads(1)))

    assert isinstance(raised.value.error, SystemExit)
    assert submit(asyncio.sleep(0, "on")) == "on"


def test_what_a_tool_leaves_behind_to_be_called_ends_nothing(submit: Submit) -> None:
    async def leave_behind() -> None:
        loop = asyncio.get_running_loop()
        for _ in range(3):
            loop.call_soon(sys.exit)
            loop.call_later(0.001, sys.exit)

    async def others() -> int:
        for _ in range(20):
            await asyncio.sleep(0.001)
        return 20

    submit(leave_behind())

    assert submit(others()) == 20


@pytest.mark.parametrize("where", ["the main thread", "another"])
def test_a_loop_for_one_task_ends_with_it(where: str) -> None:
    """As in `unattended run`, where Ctrl-C arrives."""
    ended: list[type[BaseException]] = []

    def run() -> None:
        for work in (exit_process, interrupt):
            try:
                with asyncio.Runner(loop_factory=WorkerLoop) as runner:
                    runner.run(work())
            except (SystemExit, KeyboardInterrupt) as error:
                ended.append(type(error))

    if where == "another":
        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(5)
    else:
        run()

    assert ended == [SystemExit, KeyboardInterrupt]
