"""Recorded calls: what a finished tool call did, applied to the chat and written into the turn's journal."""

from collections.abc import Collection

from workflows.chat.incidents import Incident
from workflows.chat.journal import CallStep
from workflows.chat.live import LiveTurn
from workflows.chat.people import PackageCall
from workflows.chat.tool_functions import ToolRefused, note_failure
from workflows.context.call_context import CallContext, ContextChanges
from workflows.context.storable_values import storable_key


async def record_call(
    live: LiveTurn,
    call: PackageCall,
    view: CallContext,
    *,
    text: str,
    failure: BaseException | None = None,
    private_names: Collection[str] = (),
) -> CallStep:
    """`failure`: what the tool raised, or why it was not called. `unseen`: names that only this call was shown."""
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
        removed=tuple(map(storable_key, changes.removed_names)),  # a package may name variables by anything, numbers too
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
