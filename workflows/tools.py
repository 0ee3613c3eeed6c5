"""What the tools of a package import: the context that they are given, and how to ask a person."""

from typing import Any

from workflows.chat.people import UIToolError, current_call
from workflows.context.context_variables import ContextVariables

__all__ = ["ContextVariables", "UIToolError", "use_ui_tool"]


async def use_ui_tool(tool_id: str, payload: Any = None, **more: Any) -> dict[str, Any]:
    """What is answered for this tool, or for the function that calls this: by the trigger, under `ui_responses`, or by
    a person later.

    Without an answer the run rests here as needs_human, whatever the function does about it, and `payload` is part of
    the question that it shows. UIToolError outside of a run.
    """
    del more
    return current_call().ask(str(tool_id), payload)
