from typing import Any

from workflows.tools import get_context_variable, set_context_variable


async def after_chat(context_variables: Any, **_: Any) -> None:
    trail = get_context_variable(context_variables, "trail", [])
    set_context_variable(context_variables, "trail", [*trail, "after_chat"])
