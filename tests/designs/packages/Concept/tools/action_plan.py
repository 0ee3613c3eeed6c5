from typing import Any

from workflows.tools import ContextVariables, use_ui_tool


async def action_plan(plan: str, context_variables: ContextVariables) -> dict[str, Any]:
    resp = await use_ui_tool(tool_id="action_plan", payload={"plan": plan}, display="artifact")
    plan_acceptance = resp.get("plan_acceptance")
    if plan_acceptance is not None:
        context_variables.set("action_plan_acceptance", plan_acceptance)
    context_variables.set("action_plan", plan)
    return resp
