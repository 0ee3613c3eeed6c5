"""The API for tools of packages: the context, and questions to a person."""

from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any

from workflows.chat.questions.call_questions import UIToolError, check_choices, current_call
from workflows.context.context_variables import ContextVariables

__all__ = ["ContextVariables", "UIToolError", "get_context_variable", "set_context_variable", "use_ui_tool"]


def get_context_variable(context: Mapping[str, Any], name: str, default: Any = None) -> Any:
    """Returns the value of a context variable, or `default` if it is absent.

    `context`: the context variables that the function received, or any mapping. Raises TypeError for anything else.
    """
    _check_context(context)
    return context.get(name, default)


def set_context_variable(context: MutableMapping[str, Any], name: str, value: Any) -> None:
    """Sets a context variable in the run of the given context."""
    _check_context(context)
    context[name] = value


def _check_context(context: Any) -> None:
    if not (hasattr(context, "get") and hasattr(context, "__setitem__")) and not isinstance(context, Mapping):
        raise TypeError(f"context: pass the context variables that the function received, not {type(context).__name__}")


async def use_ui_tool(
    tool_id: str, payload: Any = None, *, title: str | None = None, choices: Sequence[str] | None = None, **more: Any
) -> dict[str, Any]:
    """Returns the answer to a question, from the trigger or from a person.

    The trigger answers by `ui_responses`. The answer belongs to this call with these arguments and this payload;
    another call asks again. Without an answer the run stops here as needs_human, even if the function catches the
    exception, and shows `title`, the function's arguments and `payload`. With `choices` the person picks one of these
    texts. Raises UIToolError outside of a run.
    """
    del more
    call = current_call()
    if not str(tool_id).strip():
        raise UIToolError("tool_id: pass a name, such as 'Approve'; answers refer to it")
    title = None if title is None else str(title)
    answer = call.ask(str(tool_id), payload, title=title, choices=check_choices(choices))
    unrecorded = await call.record_standing_answers()
    if unrecorded is not None:
        raise unrecorded
    return answer
