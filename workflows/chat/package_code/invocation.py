"""Invocation of a package's functions: async ones on the loop, others in threads.

Each call is bounded in time.
"""

import asyncio
import contextvars
import functools
import inspect
import itertools
import logging
import os
from collections.abc import AsyncIterable, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from workflows.chat.package_code.forked_copies import exit_if_forked, watch_loop_forks
from workflows.chat.package_code.incidents import error_text
from workflows.chat.package_code.tool_threads import NoThreadFreeError, ToolThreads
from workflows.chat.package_code.working_directory import WORKING_DIRECTORY
from workflows.chat.questions import call_questions

log = logging.getLogger(__name__)

TOOL_TIMEOUT_S = 300.0
MAX_YIELDED_ITEMS = 10_000  # of a generator, which may be endless
CANCEL_GRACE_S = 1.0
MAX_CANCELS = 4


class TimedOutError(Exception):
    """A function took longer than its timeout, or no thread was free for that long."""


class PackageCodeError(Exception):
    """A package's function raised `error` (of any class) or ran out of time.

    The text is a short description."""

    def __init__(self, error: BaseException, message: str | None = None) -> None:
        super().__init__(message or _describe_error(error))
        self.error = error


async def invoke(
    function: Callable[..., Any],
    *positional: Any,
    keywords: Mapping[str, Any],
    threads: ToolThreads,
    timeout_s: float = TOOL_TIMEOUT_S,
    call: call_questions.PackageCall | None = None,
    cancel_grace_s: float = CANCEL_GRACE_S,
) -> Any:
    """Returns the function's result; for a generator, a list of its items.

    Raises PackageCodeError for whatever the function raised, with a TimedOutError after `timeout_s`; a function that
    continues after that is abandoned. Raises NeedsHuman when the function asked a person and no answer is there,
    whatever it did with that exception. A CancelledError is the run's, never the function's own."""
    call = call or call_questions.PackageCall()
    invocation = _Invocation(_function_name(function), call_questions.context_for_call(call), timeout_s, cancel_grace_s)
    watch_loop_forks(asyncio.get_running_loop())
    visit = WORKING_DIRECTORY.enter()
    try:
        result = await _run_function(function, positional, keywords, threads, invocation)
    finally:
        WORKING_DIRECTORY.leave(visit)
        call.note_directory_change(visit, where=invocation.name)
    raised = result.error if isinstance(result, _Failure) else None
    if raised is None:
        call.ask_with_result(result)
        await call.record_standing_answers()
    call.is_over = True
    if call.stop_error is not None:
        raise call.stop_error
    if raised is not None:
        raise PackageCodeError(raised) from None
    return result


async def _run_function(
    function: Callable[..., Any],
    positional: tuple[Any, ...],
    keywords: Mapping[str, Any],
    threads: ToolThreads,
    invocation: "_Invocation",
) -> Any:
    """Returns the result, or what the function raised as a _Failure."""
    if inspect.iscoroutinefunction(function):
        result = await _run_on_loop(functools.partial(function, *positional, **keywords), invocation)
    else:
        result = await _run_in_thread(
            functools.partial(_call_function, function, positional, keywords), threads, invocation
        )
    if inspect.isawaitable(result) or inspect.isasyncgen(result):  # a plain function around an async one
        result = await _run_on_loop(functools.partial(_collect, result), invocation)
    return result


@dataclass(frozen=True, slots=True)
class _Invocation:
    name: str
    context: contextvars.Context
    timeout_s: float  # for each part: the thread, and the awaitable that it returned
    cancel_grace_s: float


@dataclass(frozen=True, slots=True)
class _Failure:
    """An exception as a value.

    A future with GeneratorExit closes its awaiting coroutine instead of raising in it, and a task that ends with
    SystemExit ends the loop."""

    error: BaseException


async def _run_in_thread(function: Callable[[], Any], threads: ToolThreads, invocation: _Invocation) -> Any:
    bound = functools.partial(invocation.context.run, function)
    try:
        return await threads.run(bound, name=invocation.name, timeout_s=invocation.timeout_s)
    except TimeoutError:
        return _timeout_failure(invocation)
    except (NoThreadFreeError, RuntimeError) as error:  # RuntimeError: the process is about to end
        return _Failure(TimedOutError(f"it could not start: {error}"))


def _call_function(function: Callable[..., Any], positional: tuple[Any, ...], keywords: Mapping[str, Any]) -> Any:
    pid = os.getpid()
    try:
        result = function(*positional, **keywords)
        return list(itertools.islice(result, MAX_YIELDED_ITEMS)) if inspect.isgenerator(result) else result
    except StopIteration as error:
        # A coroutine that raised it would report another error, without the place.
        return _Failure(_as_runtime_error(error))
    except BaseException as error:  # noqa: BLE001 -- raised again by the caller
        return _Failure(error)
    finally:
        exit_if_forked(pid)


async def _run_on_loop(start: Callable[[], Awaitable[Any]], invocation: _Invocation) -> Any:
    """Awaits in a task of its own: a function that swallows cancellation blocks nothing."""
    task = asyncio.create_task(_await_guarded(start), context=invocation.context)
    try:
        await asyncio.wait((task,), timeout=invocation.timeout_s)
    except asyncio.CancelledError:
        await _cancel_repeatedly(task, invocation)
        raise
    if not task.done():
        await _cancel_repeatedly(task, invocation)
        return _timeout_failure(invocation)
    # The function may have cancelled its own task and returned before that took effect.
    return _Failure(asyncio.CancelledError()) if task.cancelled() else task.result()


async def _await_guarded(start: Callable[[], Awaitable[Any]]) -> Any:
    pid = os.getpid()
    try:
        return await start()
    except BaseException as error:  # noqa: BLE001 -- raised again by the caller
        return _Failure(error)
    finally:
        exit_if_forked(pid)


async def _collect(result: Awaitable[Any] | AsyncIterable[Any]) -> Any:
    if isinstance(result, Awaitable):
        return await result
    yielded = []
    async for item in result:
        yielded.append(item)
        if len(yielded) == MAX_YIELDED_ITEMS:
            break
    return yielded


async def _cancel_repeatedly(task: "asyncio.Task[Any]", invocation: _Invocation) -> None:
    """Cancels several times, since libraries may swallow one; then abandons the task."""
    _abandoned_tasks.add(task)  # the loop itself holds only weak references to tasks
    task.add_done_callback(_abandoned_tasks.discard)
    for _ in range(MAX_CANCELS):
        task.cancel()
        await asyncio.wait((task,), timeout=invocation.cancel_grace_s / MAX_CANCELS)
        if task.done():
            return
    asyncio._unregister_task(task)  # otherwise closing the loop would wait for it
    log.warning("tool_left_behind", extra={"tool": invocation.name})


_abandoned_tasks: set["asyncio.Task[Any]"] = set()


def _timeout_failure(invocation: _Invocation) -> _Failure:
    return _Failure(TimedOutError(f"it took longer than {invocation.timeout_s:g} s"))


def _describe_error(error: BaseException) -> str:
    if isinstance(error, TimedOutError):
        return str(error)
    if isinstance(error, asyncio.CancelledError):
        return "it cancelled itself"
    return f"{type(error).__name__}: {error_text(error)}"


def _as_runtime_error(error: StopIteration) -> RuntimeError:
    runtime_error = RuntimeError("StopIteration left the tool; give next() a default")
    runtime_error.__cause__ = error
    return runtime_error


def _function_name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__)
