"""Invocation: every way in which a package's function may end, or not end.

It ends in its time and without harm to the run.
"""

import asyncio
import contextvars
import functools
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from tests.unit.workflows.chat.package_code.test_tool_threads import wait_until
from workflows.chat.chat_errors import NeedsHuman
from workflows.chat.package_code.invocation import (
    CANCEL_GRACE_S,
    MAX_YIELDED_ITEMS,
    PackageCodeError,
    TimedOutError,
    invoke,
)
from workflows.chat.package_code.tool_threads import ToolThreads
from workflows.chat.questions.call_questions import PackageCall, UIToolError
from workflows.tools import use_ui_tool

POOL = ToolThreads(2, name="invoked")
WHERE: contextvars.ContextVar[str] = contextvars.ContextVar("where")


async def call(
    function: Callable[..., Any],
    *positional: Any,
    timeout_s: float = 5.0,
    cancel_grace_s: float = CANCEL_GRACE_S,
    **keywords: Any,
) -> Any:
    async with asyncio.timeout(10):
        return await invoke(
            function, *positional, keywords=keywords, threads=POOL, timeout_s=timeout_s, cancel_grace_s=cancel_grace_s
        )


def pair(a: int, /, *, b: int = 0) -> tuple[int, int]:
    return a, b


async def pair_later(a: int, /, *, b: int = 0) -> tuple[int, int]:
    await asyncio.sleep(0)
    return a, b


class CallableObject:
    async def __call__(self, a: int, *, b: int) -> tuple[int, int]:
        return a, b


@pytest.mark.parametrize(
    "function",
    [pair, pair_later, lambda a, b: pair_later(a, b=b), functools.partial(pair_later, b=9), CallableObject()],
)
async def test_what_any_kind_of_function_returns(function: Callable[..., Any]) -> None:
    assert await call(function, 1, b=2) == (1, 2)


def counting() -> Iterator[int]:
    yield from range(3)


def endless() -> Iterator[int]:
    while True:
        yield 1


async def counting_later() -> AsyncIterator[int]:
    for number in range(3):
        yield number


async def test_what_a_generator_yields_is_a_list() -> None:
    assert await call(counting) == await call(counting_later) == [0, 1, 2]
    assert len(await call(endless)) == MAX_YIELDED_ITEMS


@pytest.mark.parametrize(
    "error", [ValueError("x"), SystemExit(3), KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError()]
)
@pytest.mark.parametrize("kind", ["plain", "async"])
async def test_whatever_it_raises_reaches_the_caller_and_ends_no_loop(kind: str, error: BaseException) -> None:
    def now() -> None:
        raise error

    async def soon() -> None:
        raise error

    with pytest.raises(PackageCodeError) as caught:
        await invoke(now if kind == "plain" else soon, keywords={}, threads=POOL)

    assert caught.value.error is error
    task = asyncio.current_task()
    assert task is not None
    assert not task.cancelling()


async def test_arguments_that_do_not_fit_are_an_error_like_any_other() -> None:
    for function in (pair, pair_later):
        with pytest.raises(PackageCodeError, match="TypeError: "):
            await call(function, 1, 2, 3)


@pytest.mark.parametrize("returns", [True, False])
async def test_one_that_cancels_its_own_task_does_not_cancel_the_run(returns: bool) -> None:
    async def cancel() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        if not returns:
            await asyncio.Event().wait()

    with pytest.raises(PackageCodeError, match="it cancelled itself"):
        await call(cancel)


async def test_context_variables_of_the_caller_are_seen_and_stay_as_they_were() -> None:
    def look() -> str:
        seen = WHERE.get()
        WHERE.set("changed")
        return seen

    async def look_later() -> str:
        return look()

    WHERE.set("here")
    assert [await call(look), await call(look_later)] == ["here", "here"]
    assert WHERE.get() == "here"


@pytest.mark.parametrize("kind", ["plain", "async", "plain around async"])
async def test_one_that_takes_too_long_is_given_up(kind: str) -> None:
    ended = threading.Event()

    async def hang() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    def spin() -> None:
        try:
            while True:
                time.sleep(0.001)
        finally:
            ended.set()

    def around() -> Any:
        return hang()

    with pytest.raises(PackageCodeError, match=r"^it took longer than 0\.2 s$") as caught:
        await call({"plain": spin, "async": hang}.get(kind, around), timeout_s=0.2)
    assert isinstance(caught.value.error, TimedOutError)
    await wait_until(ended.is_set)


async def test_the_error_of_a_timeout_inside_is_not_ours() -> None:
    async def wait() -> None:
        async with asyncio.timeout(0):
            await asyncio.Event().wait()

    with pytest.raises(PackageCodeError, match="TimeoutError: "):
        await call(wait)


class StubbornFunction:
    """Swallows the first cancellations, or all of them."""

    def __init__(self, times: int) -> None:
        self.times = times
        self.began = asyncio.Event()
        self.ended = asyncio.Event()
        self.release = asyncio.Event()

    async def __call__(self) -> None:
        self.began.set()
        while self.times and not self.release.is_set():
            try:
                await self.release.wait()
            except asyncio.CancelledError:
                self.times -= 1
        self.ended.set()


@pytest.mark.parametrize("ends_by", ["timeout", "cancel"])
async def test_one_that_swallows_its_cancellation_is_cancelled_again(ends_by: str) -> None:
    stubborn = StubbornFunction(times=2)

    await end_by(stubborn, ends_by, cancel_grace_s=0.04)

    assert stubborn.ended.is_set()


@pytest.mark.parametrize("ends_by", ["timeout", "cancel"])
async def test_one_that_swallows_every_cancellation_is_left_behind(
    caplog: pytest.LogCaptureFixture, ends_by: str
) -> None:
    stubborn = StubbornFunction(times=1000)

    await end_by(stubborn, ends_by, cancel_grace_s=0.02)

    assert not stubborn.ended.is_set()
    assert [each.levelno for each in caplog.records if each.getMessage() == "tool_left_behind"] == [logging.WARNING]
    stubborn.release.set()
    await stubborn.ended.wait()


def test_the_end_of_a_loop_does_not_wait_for_what_is_left_behind() -> None:
    async def leave() -> StubbornFunction:
        stubborn = StubbornFunction(times=1000)
        await end_by(stubborn, "timeout", cancel_grace_s=0.02)
        asyncio.get_running_loop().call_later(0.05, stubborn.release.set)  # if it does wait
        return stubborn

    stubborn: list[StubbornFunction] = []
    thread = threading.Thread(target=lambda: stubborn.append(asyncio.run(leave())))
    thread.start()
    thread.join(10)

    assert not stubborn[0].ended.is_set()


async def end_by(function: Callable[[], Any], by: str, *, cancel_grace_s: float) -> None:
    async def work() -> None:
        await function()

    task = asyncio.create_task(call(work, timeout_s=0.02 if by == "timeout" else 5, cancel_grace_s=cancel_grace_s))
    if by == "cancel":
        await function.began.wait()  # type: ignore[attr-defined]  # of a Stubborn
        task.cancel()
    with pytest.raises(PackageCodeError if by == "timeout" else asyncio.CancelledError):
        await task


async def test_a_second_cancel_of_the_run_does_not_wait() -> None:
    stubborn = StubbornFunction(times=1000)

    async def work() -> None:
        await stubborn()

    task = asyncio.create_task(call(work, cancel_grace_s=60))
    await stubborn.began.wait()
    task.cancel()
    await wait_until(lambda: stubborn.times < 1000)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    stubborn.release.set()


async def test_a_cancel_reaches_a_plain_function_and_does_not_wait_for_it() -> None:
    began, release = threading.Event(), threading.Event()

    def wait() -> None:
        began.set()
        release.wait()

    task = asyncio.create_task(call(wait))
    await wait_until(began.is_set)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    release.set()


async def test_a_busy_pool_is_distinguished_from_a_slow_function() -> None:
    pool, release = ToolThreads(1), threading.Event()
    busy = asyncio.create_task(invoke(release.wait, keywords={}, threads=pool))
    await wait_until(lambda: pool.thread_count == 1)

    with pytest.raises(PackageCodeError, match="could not start: no thread was free"):
        await invoke(pair, 1, keywords={}, threads=pool, timeout_s=0.01)
    release.set()
    await busy
    pool.close()
    with pytest.raises(PackageCodeError, match="could not start: the tool threads are closed"):
        await invoke(pair, 1, keywords={}, threads=pool)


async def ask() -> Any:
    return await use_ui_tool("Card", {"a": 1}, chat_id="c")


async def swallow() -> str:
    try:
        await ask()
    except BaseException:  # noqa: BLE001 -- as a careless tool does
        return "went on"
    raise AssertionError


async def swallow_errors() -> str:
    try:
        await ask()
    except Exception:  # noqa: BLE001 -- as a careful tool does
        return "went on"
    raise AssertionError


@pytest.mark.parametrize("function", [ask, swallow, swallow_errors, lambda: asyncio.run(swallow())])
async def test_a_question_to_an_absent_person_cannot_be_swallowed(function: Callable[[], Any]) -> None:
    with pytest.raises(NeedsHuman, match=r"a step of the package waits for a person \(Card\)"):
        await call(function)


async def test_one_for_people_waits_when_it_returns_without_having_asked() -> None:
    with pytest.raises(NeedsHuman, match="show waits for a person: its trigger"):
        await invoke(pair, 1, keywords={}, threads=POOL, call=PackageCall("show", needs_answer=True))
    with pytest.raises(PackageCodeError, match="ValueError: broken"):
        await invoke(broken, keywords={}, threads=POOL, call=PackageCall("show", needs_answer=True))


def broken() -> None:
    raise ValueError("broken")


async def test_outside_of_a_run_no_person_can_be_asked() -> None:
    with pytest.raises(UIToolError, match="in a run only"):
        await use_ui_tool("Card")
