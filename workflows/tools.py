"""What the tools of a package import: the context that they are given, its values, and how to ask a person."""

from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any

from workflows.chat.questions.package_call import UIToolError, check_choices, current_call
from workflows.context.context_variables import ContextVariables

__all__ = ["ContextVariables", "UIToolError", "get_context_variable", "set_context_variable", "use_ui_tool"]


def get_context_variable(context: Mapping[str, Any], name: str, default: Any = None) -> Any:
    """The value of a context variable; `default` where the context has none of that name.

    `context`: the context variables that the function was given, or any mapping. TypeError for anything else.
    """
    _check_context(context)
    return context.get(name, default)


def set_context_variable(context: MutableMapping[str, Any], name: str, value: Any) -> None:
    """Sets a context variable in the run that the function was given the context of."""
    _check_context(context)
    context[name] = value


def _check_context(context: Any) -> None:
    if not (hasattr(context, "get") and hasattr(context, "__setitem__")) and not isinstance(context, Mapping):
        raise TypeError(
            f"context: give the context variables that the function was given, not {type(context).__name__}"
        )


async def use_ui_tool(
    tool_id: str, payload: Any = None, *, title: str | None = None, choices: Sequence[str] | None = None, **more: Any
) -> dict[str, Any]:
    """What is answered to this question: by the trigger, under `ui_responses`, or by a person later.

    The answer belongs to this call with these arguments and this payload; another call asks anew. Without an answer
    the run rests here as needs_human, whatever the function does about it, and shows `title`, the function's arguments
    and `payload`. With `choices` the person picks one of these texts. UIToolError outside of a run.
    """
    del more
    call = current_call()
    if not str(tool_id).strip():
        raise UIToolError("tool_id: give a name, such as 'Approve'; an answer names what it is for")
    title = None if title is None else str(title)
    answer = call.ask(str(tool_id), payload, title=title, choices=check_choices(choices))
    unrecorded = await call.record_standing_answers()
    if unrecorded is not None:
        raise unrecorded
    return answer
