"""UI tools without a user interface: questions go to `workflows.tools`.

Displays are only logged.
"""

import logging
from typing import Any

from workflows.chat.chat_state import live_turn
from workflows.chat.questions.call_questions import PackageCall, current_call
from workflows.chat.questions.question import digest
from workflows.context.values.storable_values import plain_copy
from workflows.tools import UIToolError, use_ui_tool

__all__ = ["UIToolError", "emit_ui_surface", "use_ui_tool"]

log = logging.getLogger(__name__)

MAX_NAME_CHARACTERS = 100


async def emit_ui_surface(
    tool_id: str,
    payload: Any = None,
    *,
    chat_id: str | None = None,
    workflow_name: str | None = None,
    display: str | None = None,
    agent_name: str | None = None,
) -> str:
    """Logs that a surface was not shown, and returns the id that it would have had.

    The function continues, since it asks no person. A repeated call returns the same id, so a tool that puts the id
    into a question repeats the same question. Raises UIToolError outside of a run.
    """
    del chat_id, workflow_name, agent_name  # the run has its own
    name = str(tool_id).strip()
    if not name:
        raise UIToolError("tool_id: give a name, such as 'StatusCard'")
    call = current_call("emit_ui_surface")
    identity = [_call_place(call), call.position, call.function, name, plain_copy(payload)]
    log.info("ui_surface_not_shown", extra={"tool": name[:MAX_NAME_CHARACTERS], "display": display or "inline"})
    return f"{name}_{digest(identity)[:8]}"


def _call_place(call: PackageCall) -> str:
    """Returns the key of the turn, else of the run. A repeated call gets the same key."""
    try:
        return str(live_turn().idempotency_key)
    except LookupError:  # before the first turn, or after the last one
        return "" if call.chat is None else str(call.chat.fixed_values.get("run_id"))
