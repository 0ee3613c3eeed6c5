"""Checks of automatic tools: each has a caller and a structured reply."""

from workflows.package.checks.file_places import agent_place, agents_file, tools_file
from workflows.package.findings import Findings
from workflows.package.normal_form.automatic_tools import can_offer_tools, is_automatic
from workflows.package.normal_form.package_model import Agent, Package, Tool


def check_automatic_tools(package: Package, findings: Findings) -> None:
    for name, agent in package.agents.items():
        if agent.auto_tool_mode and name not in package.outputs.registry and not agent.structured_outputs_required:
            message = f"requires a structured reply; add {name}: <model> to the registry of structured_outputs"
            place = f"{agent_place(package, name)}.auto_tool_mode"
            findings.add("error", "missing_model", agents_file(package), place, message)
    for tool in package.tools:
        _check_caller(package, tool, findings)


def _check_caller(package: Package, tool: Tool, findings: Findings) -> None:
    owners = [package.agents[name] for name in tool.agents if name in package.agents]
    reasons = {_find_uncalled_reason(package, agent, tool): None for agent in owners}
    for field, why in filter(None, reasons):
        place = ".".join(filter(None, (tool.place, field)))
        findings.add("warning", "not_executed", tools_file(package), place, why)


def _find_uncalled_reason(package: Package, agent: Agent, tool: Tool) -> tuple[str, str] | None:
    """Returns the field that has no effect for this agent, and the reason.

    Returns None if the tool is called.
    """
    if is_automatic(package, agent.name, tool):
        return None
    if tool.bound and can_offer_tools(package, agent.name):
        is_ignored = tool.auto_invoke and tool.kind == "Agent_Tool"
        why = "has no effect: the agent's model decides when to call this tool; describe that in its prompt"
        return ("auto_invoke", why) if is_ignored else None
    if not tool.auto_invoke:
        if tool.bound:
            why = f"is false, and {agent.name} is in auto_tool_mode: nothing calls this tool; set it to true"
            return "auto_invoke", why
        return "bind_to_agent", "is false without auto_invoke: nothing calls this tool; set one of them to true"
    if agent.auto_tool_mode:
        return None  # reported for the agent
    why = f"is false, and {agent.name} has no structured reply to call this tool with: nothing calls it; add"
    return "bind_to_agent", f"{why} {agent.name}: <model> to the registry of structured_outputs"
