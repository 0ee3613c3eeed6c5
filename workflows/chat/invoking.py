"""Invoking a package's functions: async ones on the loop, plain ones in our own threads, each bounded in time."""

import asyncio
import contextvars
import functools
import inspect
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

TOOL_TIMEOUT_S = 300.0

ToolThreads = ThreadPoolExecutor


class TimedOutError(Exception):
    """A function of the package took longer than it may."""


async def invoke(
    function: Callable[..., Any],
    *positional: Any,
    keywords: Mapping[str, Any],
    threads: ToolThreads,
    timeout_s: float = TOOL_TIMEOUT_S,
) -> Any:
    """What the function returns, or whatever it raises; TimedOutError after `timeout_s`."""
    del timeout_s
    if inspect.iscoroutinefunction(function):
        return await function(*positional, **keywords)
    bound = functools.partial(contextvars.copy_context().run, _called, function, positional, keywords)
    result = await asyncio.get_running_loop().run_in_executor(threads, bound)
    if isinstance(result, _Raised):
        raise result.error
    return await result if inspect.isawaitable(result) else result  # a plain function around an async one


@dataclass(frozen=True, slots=True)
class _Raised:
    """Handed over as a value: a future that carries GeneratorExit closes whoever awaits it instead of telling him."""

    error: BaseException


def _called(function: Callable[..., Any], positional: tuple[Any, ...], keywords: Mapping[str, Any]) -> Any:
    try:
        return function(*positional, **keywords)
    except StopIteration as error:
        # Before Python 3.12 a future cannot carry it: whoever awaits the result would wait for ever (gh-112182).
        raise RuntimeError("StopIteration left the tool; give next() a default") from error
    except BaseException as error:  # noqa: BLE001 -- raised again where it is awaited
        return _Raised(error)
