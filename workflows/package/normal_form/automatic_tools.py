"""Automatic tools: those that are called with what an agent's structured reply says, instead of by its model."""

from workflows.package.normal_form.package_model import Package, Tool


def can_offer_tools(package: Package, agent: str) -> bool:
    """Whether the agent's model may be offered any tool of the package."""
    return not package.agents[agent].auto_tool_mode


def is_offered(package: Package, agent: str, tool: Tool) -> bool:
    return agent in tool.agents and tool.is_offered and can_offer_tools(package, agent)


def is_automatic(package: Package, agent: str, tool: Tool) -> bool:
    """An unbound tool could be called in no other way; a bound one is left to the model, unless it is offered none."""
    answers = agent in tool.agents and agent in package.outputs.registry
    return answers and tool.auto_invoke and not (tool.bound and can_offer_tools(package, agent))


def automatic_tools(package: Package, agent: str) -> tuple[Tool, ...]:
    """In the order of the file, in which they are called."""
    return tuple(tool for tool in package.tools if is_automatic(package, agent, tool))
