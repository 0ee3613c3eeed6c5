"""Automatic tools: called with an agent's structured reply, not by its model."""

from workflows.package.normal_form.package_model import Package, Tool


def can_offer_tools(package: Package, agent: str) -> bool:
    """Returns whether the agent's model may be offered tools at all."""
    return not package.agents[agent].auto_tool_mode


def is_offered(package: Package, agent: str, tool: Tool) -> bool:
    return agent in tool.agents and tool.is_offered and can_offer_tools(package, agent)


def is_automatic(package: Package, agent: str, tool: Tool) -> bool:
    """Returns whether the tool is called with the agent's reply.

    A bound tool is left to the model, unless the model is offered no tools.
    """
    answers = agent in tool.agents and agent in package.outputs.registry
    return answers and tool.auto_invoke and not (tool.bound and can_offer_tools(package, agent))


def automatic_tools(package: Package, agent: str) -> tuple[Tool, ...]:
    """Returns the agent's automatic tools in file order, the order of their calls."""
    return tuple(tool for tool in package.tools if is_automatic(package, agent, tool))
