"""Places in package files: the file of a part, and its path in that file."""

from workflows.package.normal_form.package_model import Package


def orchestrator_file(package: Package) -> str:
    return package.file_names.get("orchestrator", "orchestrator")


def agents_file(package: Package) -> str:
    return package.file_names.get("agents", "agents")


def tools_file(package: Package) -> str:
    return package.file_names.get("tools", "tools")


def variables_file(package: Package) -> str:
    return package.file_names.get("context_variables", "context_variables")


def hooks_file(package: Package) -> str:
    return package.file_names.get("hooks") or package.file_names.get("middleware", "hooks")


def triggers_file(package: Package) -> str:
    return package.file_names.get("triggers") or orchestrator_file(package)


def routing_file(package: Package) -> str:
    """Returns the routing file that the reader used.

    Of two routing files the pattern decides.
    """
    stems = ("handoffs", "transition_graph")
    if package.orchestrator.pattern == "ag2_network":
        stems = ("transition_graph", "handoffs")
    return next((package.file_names[stem] for stem in stems if stem in package.file_names), stems[0])


def agent_place(package: Package, name: str) -> str:
    return package.agents[name].place or f"agents.{name}"


def exposure_place(package: Package, agent: str) -> str:
    return package.exposure_places.get(agent) or f"agents.{agent}"


def variable_place(package: Package, name: str) -> str:
    return package.variables[name].place or f"definitions.{name}"


def rule_place(package: Package, index: int) -> str:
    return package.rules[index].place or f"handoff_rules[{index}]"
