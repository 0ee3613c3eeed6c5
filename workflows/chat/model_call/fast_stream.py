"""The fast stream: AG2's memory stream, which calls plain subscribers directly.

AG2 builds a pydantic model for every subscription, six of them for the shortest turn, and fills in an injected
`Context` in a thread: 70 % of a turn's CPU. A coroutine function of an event, and perhaps of `Context`, needs neither.
Other subscribers (synchronous functions, Inject, Depends, defaults) take AG2's way. Order, conditions, interrupters and
history remain AG2's own code.

The stream relies on `send` reading `_subscribers` and `_interrupters` on each call, as pairs of a condition and an
object whose `asolve(event, ...)` is awaited with the context under the name CONTEXT_OPTION_NAME. On an upgrade of AG2,
tests/unit/workflows/chat/model_call/test_fast_stream.py checks that and compares the two streams.
"""

from collections.abc import Callable
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_VARARGS, CO_VARKEYWORDS
from types import FunctionType, MethodType
from typing import Any, cast
from uuid import uuid4

from ag2.annotations import Context
from ag2.events import BaseEvent
from ag2.events.conditions import Condition
from ag2.stream import MemoryStream
from ag2.utils import CONTEXT_OPTION_NAME, build_model
from fast_depends.core import CallModel
from typing_extensions import override

_CODE_FLAGS = CO_COROUTINE | CO_ASYNC_GENERATOR | CO_VARARGS | CO_VARKEYWORDS


class FastStream(MemoryStream):
    __slots__ = ()

    @override
    def subscribe(
        self,
        func: Callable[..., Any] | None = None,
        *,
        interrupt: bool = False,
        sync_to_thread: bool = True,
        condition: Condition | None = None,
    ) -> Any:
        direct = _direct_call(func) if func is not None else None
        if direct is None:
            options: dict[str, Any] = {"interrupt": interrupt, "sync_to_thread": sync_to_thread, "condition": condition}
            return super().subscribe(func, **options)
        sub_id = uuid4()
        subscriptions = self._interrupters if interrupt else self._subscribers
        subscriptions[sub_id] = (condition, cast(CallModel, direct))
        return sub_id


class _DirectCall:
    """The part of a call model that AG2's stream uses: `asolve`."""

    __slots__ = ("_call", "_event_type", "_with_context")

    def __init__(self, call: Callable[..., Any], event_type: type, *, with_context: bool) -> None:
        self._call = call
        self._event_type = event_type
        self._with_context = with_context

    async def asolve(self, event: BaseEvent, **options: Any) -> Any:
        if not isinstance(event, self._event_type):
            # Refused with AG2's own error; such a subscription is a mistake.
            return await build_model(self._call, serialize_result=False).asolve(cast(Any, event), **options)
        if self._with_context:
            return await self._call(event, options[CONTEXT_OPTION_NAME])
        return await self._call(event)


def _direct_call(func: Callable[..., Any]) -> _DirectCall | None:
    """Wraps a coroutine function of an event and perhaps its context; else None."""
    bound = isinstance(func, MethodType)
    function = func.__func__ if isinstance(func, MethodType) else func
    # Attributes may belong to a decorator that changes the signature.
    if not isinstance(function, FunctionType) or function.__dict__:
        return None
    code = function.__code__
    if code.co_flags & _CODE_FLAGS != CO_COROUTINE or code.co_kwonlyargcount or code.co_posonlyargcount:
        return None
    names = code.co_varnames[bound : code.co_argcount]
    event_type, *injected = [_annotation(function, name) for name in names] or [None]
    if not isinstance(event_type, type) or injected not in ([], [Context]):
        return None
    return _DirectCall(func, event_type, with_context=bool(injected))


def _annotation(function: FunctionType, name: str) -> Any:
    """Resolves a quoted name, but no quoted expression."""
    annotation = function.__annotations__.get(name, object)
    if isinstance(annotation, str):
        annotation = function.__globals__.get(annotation)
    return object if annotation is Any else annotation
