from typing import Any

from workflows.tools import ContextVariables, use_ui_tool


async def approve_refund(amount: int, context_variables: ContextVariables) -> dict[str, Any]:
    answer = await use_ui_tool("approve_refund", {"amount": amount})
    context_variables.set("refund_record", {"amount": amount, "decision": answer["decision"]})
    return answer
