"""The record of tool calls: each once, with its time and result.

Calls that may have changed something are noted in their turn too. If the turn is not finished, the note is all that
remains of them.
"""

import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from workflows.chat.chat_errors import NeedsHuman
from workflows.chat.chat_state import LiveTurn, NotedToolCall
from workflows.chat.history.turn_journal import CallStep
from workflows.chat.package_code.incidents import Incident
from workflows.chat.package_code.invocation import PackageCodeError
from workflows.chat.questions.call_questions import PackageCall
from workflows.chat.tools.tool_functions import ToolFunction, ToolRefused, note_failure
from workflows.context.call_context import CallContext, ContextChanges
from workflows.context.values.storable_values import storable_key
from workflows.spans import ToolSpan


@contextmanager
def measure_call(live: LiveTurn, tool: ToolFunction, arguments: str = "{}") -> Iterator[ToolSpan]:
    """Measures one call.

    A call that its run cut off does not count for the tool, and waiting for a person is no failure."""
    started = time.monotonic()
    noted = live.begin_call(tool.name, arguments) if tool.has_effects else NotedToolCall(tool.name)

    def note_answer(*, failed: bool) -> None:
        noted.state = "failed" if failed else "done"
        live.chat.on_tool_call(tool.name, time.monotonic() - started, failed)

    with live.chat.spans.tool_call(tool.name, arguments) as span:
        try:
            yield span
        except (ToolRefused, PackageCodeError) as error:
            span.record_error(type(error.error if isinstance(error, PackageCodeError) else error).__name__)
            note_answer(failed=True)
            raise
        except NeedsHuman:
            note_answer(failed=False)
            noted.state = "asked"
            raise
        note_answer(failed=False)


def note_replayed_call(live: LiveTurn, tool: ToolFunction, arguments: str, step: CallStep) -> None:
    """Notes a call that an earlier attempt at this turn has made."""
    if tool.has_effects:
        live.begin_call(tool.name, arguments).state = "failed" if step.failed else "done"


async def record_call(
    live: LiveTurn,
    call: PackageCall,
    view: CallContext,
    *,
    text: str,
    failure: BaseException | None = None,
    private_names: Collection[str] = (),
) -> CallStep:
    """Applies and records a finished call.

    `failure` is what the tool raised, or why it was not called. `private_names` are names that only this call was
    shown."""
    changes = _without_names(view.changes(), private_names)
    live.apply_changes(changes)
    live.add_answers(call.answers)
    noted: tuple[Incident, ...] = ()
    if failure is not None and not isinstance(failure, ToolRefused):
        noted = note_failure(live, call.function, failure)
    step = CallStep(
        call.position,
        call.function,
        text,
        failed=failure is not None,
        changes=changes.values,
        removed=tuple(map(storable_key, changes.removed_names)),  # variables may be named by anything, numbers too
        written=tuple(sorted(map(storable_key, changes.written_names))),
        answers=tuple(call.answers),
        incidents=(*call.incidents, *noted),
    )
    live.journal.add(step)
    await live.save_journal()
    return step


def _without_names(changes: ContextChanges, names: Collection[str]) -> ContextChanges:
    if not names:
        return changes
    values = {name: value for name, value in changes.values.items() if name not in names}
    removed = tuple(name for name in changes.removed_names if name not in names)
    return ContextChanges(values, removed, changes.written_names.difference(names))
