from typing import Any


async def before_chat(context_variables: Any, **_: Any) -> None:
    context_variables.set("trail", [*(context_variables.get("trail") or []), "before_chat"])
