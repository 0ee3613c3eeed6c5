"""Tool calls of a model: AG2's Tool interface over package functions; readable errors.

AG2's own tool would publish `context_variables` to the model, pass it tracebacks with file paths, and run synchronous
functions in a thread pool that AG2 shares with its own plumbing.
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

from workflows.chat.chat_state import LiveTurn, live_turn
from workflows.chat.history.transcript import FAILED_KEY, NO_EFFECTS_KEY
from workflows.chat.history.turn_journal import CallStep
from workflows.chat.package_code.incidents import append_own_line
from workflows.chat.package_code.invocation import PackageCodeError
from workflows.chat.questions.call_questions import PackageCall
from workflows.chat.tools.tool_call_record import measure_call, note_replayed_call, record_call
from workflows.chat.tools.tool_functions import (
    ToolFunction,
    ToolRefused,
    end_run,
    log_dropped_arguments,
    result_text,
    runtime_arguments,
)
from workflows.context.call_context import CallContext

MAX_ERROR_CHARACTERS = 500


class PackageTool(AG2Tool):
    def __init__(self, tool: ToolFunction) -> None:
        self.name = tool.name
        self._tool = tool
        self._definition = {"name": tool.name, "description": tool.description, "parameters": tool.json_schema()}
        # Made once: an agent may have dozens of tools, all shown and subscribed in every turn.
        self._schema = FunctionToolSchema.from_dict({"function": self._definition})
        # AG2's event fields compare to conditions.
        self._call_condition = cast("Condition", ToolCallEvent.name == self.name)

    def __deepcopy__(self, memo: dict[int, Any]) -> "PackageTool":
        return self  # AG2 copies tools per agent; ours hold no state of a run

    @override
    async def schemas(self, context: ConversationContext) -> Iterable[ToolSchema]:
        # A default or a docstring is package code too, and may hold a hidden value.
        shown = live_turn().chat.redactor.redact_data(self._definition)
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
            await context.send(ToolResultEvent.from_call(event, result=await self._run_or_replay(event, live_turn())))

        stack.enter_context(context.stream.where(self._call_condition).sub_scope(execute))

    async def _run_or_replay(self, event: ToolCallEvent, live: LiveTurn) -> ToolResult:
        """Returns text for the model, whatever the tool does.

        A call that the journal holds is not made again."""
        position = live.journal.find_position(event)
        step = live.journal.recorded_call(position)
        if step is None:
            call = self._tool.new_call(position, event.serialized_arguments)
            log_dropped_arguments(live, self._tool, event.serialized_arguments)
            try:
                step = await self._call_and_record(event, live, call)
            # AG2 would report a failed call to the model, though the call was made and only could not be recorded. The
            # next model call ends the chat instead; calls beside this one finish.
            except Exception as stop:  # noqa: BLE001 -- any error of the store is raised again there
                live.stop_error = live.stop_error or stop
                return ToolResult(str(stop), metadata={FAILED_KEY: True})
        else:
            note_replayed_call(live, self._tool, event.arguments, step)
            failure = next((incident for incident in step.incidents if incident.is_failure), None)
            if failure is not None and self._tool.on_error == "fail":  # recorded before its worker was lost
                end_run(live, self._tool, failure.summary)
        # Stored beside the text: a successful result may read like a failure.
        failed = {FAILED_KEY: True} if step.failed else {}
        return ToolResult(step.text, metadata=failed if self._tool.has_effects else {**failed, NO_EFFECTS_KEY: True})

    async def _call_and_record(self, event: ToolCallEvent, live: LiveTurn, call: PackageCall) -> CallStep:
        """Makes and records a call: a sentence for the model, a traceback for the record."""
        redact, view = live.chat.redactor.redact_text, CallContext(live.reply_context)
        failure: BaseException | None = None
        try:
            with measure_call(live, self._tool, event.arguments) as span:
                result = await self._tool.call(call, runtime_arguments(live, view), live.chat.built_package.threads)
                text = result_text(live, result)
                span.record_result(text)
        except ToolRefused as refused:
            text, failure = redact(str(refused)), refused
        except PackageCodeError as raised:
            text, failure = redact(f"The tool {self.name} failed: {raised}")[:MAX_ERROR_CHARACTERS], raised.error
            if self._tool.on_error == "fail":
                end_run(live, self._tool, append_own_line(str(raised), raised.error))
        return await record_call(live, call, view, text=text, failure=failure)
