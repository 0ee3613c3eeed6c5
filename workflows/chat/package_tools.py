"""Package tools: AG2's Tool interface over a package's functions, with errors the model can act on.

AG2 would publish `context_variables` to the model, hand it tracebacks with file paths, and run every
synchronous function in a thread pool it shares with its own plumbing. So the tool is ours.
"""

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
from workflows.chat.incidents import with_place
from workflows.chat.invoking import RaisedError
from workflows.chat.live import LiveTurn, live_turn
from workflows.chat.tool_calls import measured
from workflows.chat.tool_functions import ToolFunction, ToolRefused, as_answer, end_run, note_failure, runtime_of
from workflows.chat.transcript import FAILED

MAX_SENTENCE = 500


class PackageTool(AG2Tool):
    def __init__(self, tool: ToolFunction) -> None:
        self.name = tool.name
        self._tool = tool
        self._definition = {"name": tool.name, "description": tool.description, "parameters": tool.json_schema()}
        # Made once: an agent may have dozens of tools, and all of them are shown and subscribed in every turn.
        self._schema = FunctionToolSchema.from_dict({"function": self._definition})
        self._called = cast("Condition", ToolCallEvent.name == self.name)  # AG2's event fields compare to conditions

    def __deepcopy__(self, memo: dict[int, Any]) -> "PackageTool":
        return self  # AG2 copies tools per agent; ours hold no state of a run

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
        redact = live.chat.redactor.text
        try:
            with measured(live, self.name, event.arguments) as span:
                result = await self._tool.call(event.serialized_arguments, runtime_of(live), live.chat.built.threads)
                text = as_answer(live, result)
                span.answered(text)
                return ToolResult(text)
        except ToolRefused as refused:
            return _failure(redact(str(refused)))
        except NeedsHuman as needed:  # the next model call ends the chat; calls beside this one come to their end
            live.stop = live.stop or needed
            return _failure(str(needed))
        except RaisedError as raised:
            note_failure(live, self.name, raised.error)
            if self._tool.on_error == "fail":
                end_run(live, self._tool, with_place(str(raised), raised.error))
            return _failure(redact(f"The tool {self.name} failed: {raised}")[:MAX_SENTENCE])


def _failure(text: str) -> ToolResult:
    """Said beside the text: what a tool returns may read like a failure, and be none."""
    return ToolResult(text, metadata={FAILED: True})
