"""Package tools: AG2's Tool interface over a package's functions, with errors the model can act on.

AG2 would publish `context_variables` to the model, hand it tracebacks with file paths, and run every
synchronous function in a thread pool it shares with its own plumbing. So the tool is ours.
"""

import asyncio
import logging
from collections.abc import Iterable
from contextlib import AsyncExitStack, ExitStack
from typing import Any, cast

from ag2.annotations import Context
from ag2.context import ConversationContext
from ag2.events import Condition, ToolCallEvent, ToolResult, ToolResultEvent
from ag2.middleware import BaseMiddleware
from ag2.tools.final import FunctionToolSchema
from ag2.tools.schemas import ToolSchema
from ag2.tools.tool import Tool as AG2Tool
from typing_extensions import override

from workflows.chat.errors import NeedsHuman
from workflows.chat.incidents import incident_of, words_of
from workflows.chat.invoking import TimedOutError
from workflows.chat.live import LiveTurn, live_turn
from workflows.chat.tool_functions import MAX_RESULT, ToolFunction, ToolRefused, runtime_of
from workflows.chat.tool_threads import ToolThreads
from workflows.chat.transcript import FAILED
from workflows.context.rendering import as_text

log = logging.getLogger(__name__)


class PackageTool(AG2Tool):
    def __init__(self, tool: ToolFunction, threads: ToolThreads) -> None:
        self.name = tool.name
        self._tool = tool
        self._threads = threads
        self._definition = {"name": tool.name, "description": tool.description, "parameters": tool.json_schema()}
        # Made once: an agent may have dozens of tools, and all of them are shown and subscribed in every turn.
        self._schema = FunctionToolSchema.from_dict({"function": self._definition})
        self._called = cast("Condition", ToolCallEvent.name == self.name)  # AG2's event fields compare to conditions

    def __deepcopy__(self, memo: dict[int, Any]) -> "PackageTool":
        return self  # AG2 copies tools per agent; ours hold no state of a run, and a thread pool cannot be copied

    @override
    async def schemas(self, context: ConversationContext) -> Iterable[ToolSchema]:
        # A default or a docstring is the package's code too, and may hold what that code read.
        shown = live_turn().chat.redactor.data(self._definition)
        return [self._schema if shown is self._definition else FunctionToolSchema.from_dict({"function": shown})]

    @override
    def register(
        self,
        stack: ExitStack | AsyncExitStack,
        context: ConversationContext,
        *,
        middleware: Iterable[BaseMiddleware] = (),
    ) -> None:
        async def execute(event: ToolCallEvent, context: Context) -> None:
            await context.send(ToolResultEvent.from_call(event, result=await self._result(event, live_turn())))

        stack.enter_context(context.stream.where(self._called).sub_scope(execute))

    async def _result(self, event: ToolCallEvent, live: LiveTurn) -> ToolResult:
        """Text for the model, whatever the tool does: an error is one sentence, the traceback goes to the record."""
        redactor = live.chat.redactor  # before anything is cut: half a value is not found
        task = asyncio.current_task()
        try:
            result = await self._tool.call(event.serialized_arguments, runtime_of(live), self._threads)
            return ToolResult(_cut(redactor.text(as_text(result))))
        except ToolRefused as refused:
            return _failure(redactor.text(str(refused)))
        except NeedsHuman as needed:  # the next model call ends the chat; calls beside this one come to their end
            live.stop = live.stop or needed
            return _failure(str(needed))
        except asyncio.CancelledError:
            if task is not None and task.cancelling():
                raise
            return self._failed(RuntimeError("the tool cancelled itself"), live)
        except BaseException as error:  # a package's tool may raise anything, and the run goes on
            if isinstance(error, GeneratorExit) and _running_task() is not task:
                raise  # nobody raised it: the run itself is closed, and may await no more
            return self._failed(error, live)

    def _failed(self, error: BaseException, live: LiveTurn) -> ToolResult:
        live.note(incident_of(error, where=f"tool {self.name}", agent=live.agent, turn=live.number))
        log.warning("tool_failed", extra={"tool": self.name, "error": type(error).__name__}, exc_info=error)
        reason = words_of(error) if isinstance(error, TimedOutError) else f"{type(error).__name__}: {words_of(error)}"
        sentence = f"The tool {self.name} failed: {reason}"
        return _failure(live.chat.redactor.text(sentence)[:500])


def _failure(text: str) -> ToolResult:
    """Said beside the text: what a tool returns may read like a failure, and be none."""
    return ToolResult(text, metadata={FAILED: True})


def _running_task() -> "asyncio.Task[Any] | None":
    try:
        return asyncio.current_task()
    except RuntimeError:  # no loop runs: it is closed by the garbage collector
        return None


def _cut(text: str) -> str:
    return text if len(text) <= MAX_RESULT else f"{text[:MAX_RESULT]}… (cut, {len(text)} characters)"
