"""Checks of automatic tools: whether every tool has somebody who calls it, and every automatic one an answer."""

from workflows.package.checks.file_places import agent_place, agents_file, tools_file
from workflows.package.findings import Findings
from workflows.package.normal_form.automatic_tools import can_offer_tools, is_automatic
from workflows.package.normal_form.package_model import Agent, Package, Tool


def check_automatic_tools(package: Package, findings: Findings) -> None:
    for name, agent in package.agents.items():
        if agent.auto_tool_mode and name not in package.outputs.registry and not agent.structured_outputs_required:
            message = f"needs a model to answer with; add {name}: <model> to the registry of structured_outputs"
            place = f"{agent_place(package, name)}.auto_tool_mode"
            findings.add("error", "missing_model", agents_file(package), place, message)
    for tool in package.tools:
        _check_caller(package, tool, findings)


def _check_caller(package: Package, tool: Tool, findings: Findings) -> None:
    owners = [package.agents[name] for name in tool.agents if name in package.agents]
    said = {_find_uncalled_reason(package, agent, tool): None for agent in owners}
    for field, why in filter(None, said):
        place = ".".join(filter(None, (tool.place, field)))
        findings.add("warning", "not_executed", tools_file(package), place, why)


def _find_uncalled_reason(package: Package, agent: Agent, tool: Tool) -> tuple[str, str] | None:
    """The field that says something which is not done, and why it is not."""
    if is_automatic(package, agent.name, tool):
        return None
    if tool.bound and can_offer_tools(package, agent.name):
        asked = tool.auto_invoke and tool.kind == "Agent_Tool"
        return ("auto_invoke", "the agent decides when to call this tool; say in its prompt when to") if asked else None
    if not tool.auto_invoke:
        if tool.bound:
            why = f"{agent.name} is in auto_tool_mode, where it is offered no tools; nothing calls this one"
            return "auto_invoke", f"{why}: set it to true"
        return "bind_to_agent", "a tool that is not bound is not offered to the agent; nothing calls it"
    if agent.auto_tool_mode:
        return None  # said once, of the agent
    why = f"{agent.name} answers with no model that this tool could be called with; nothing calls it: add"
    return "bind_to_agent", f"{why} {agent.name}: <model> to the registry of structured_outputs"
