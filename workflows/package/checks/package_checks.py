"""All checks across files, in the order of their findings."""

from workflows.package.checks.file_places import (
    agent_place,
    agents_file,
    exposure_place,
    orchestrator_file,
    tools_file,
    variables_file,
)
from workflows.package.checks.human_input_checks import check_people
from workflows.package.checks.known_names import known_names
from workflows.package.checks.prompt_checks import check_first_message, check_prompts
from workflows.package.checks.routing.condition_checks import check_conditions, check_judged_rules
from workflows.package.checks.routing.routing_checks import check_routing
from workflows.package.checks.routing.unsatisfiable_rules import check_unsatisfiable_rules, find_unsatisfiable_rules
from workflows.package.checks.trigger_checks import check_triggers
from workflows.package.checks.variables.ambiguous_transitions import check_ambiguous_transitions
from workflows.package.checks.variables.constant_variables import check_unset_variables
from workflows.package.checks.variables.source_checks import check_sources
from workflows.package.checks.variables.state_checks import check_states
from workflows.package.checks.variables.unreachable_transitions import check_unreachable_transitions
from workflows.package.findings import Findings
from workflows.package.normal_form.automatic_tools import can_offer_tools, is_automatic
from workflows.package.normal_form.package_model import MANAGER, Agent, Package, Tool


def check_package(package: Package, findings: Findings, *, production: bool = False) -> None:
    check_first_message(package, findings)
    check_prompts(package, findings)
    check_manager_name(package, findings)
    check_exposures(package, findings)
    check_sources(package, findings, production=production)
    unsatisfiable = find_unsatisfiable_rules(package, findings)
    check_unset_variables(package, findings, reported_names=unsatisfiable.names())
    check_states(package, findings, unsatisfiable=unsatisfiable.reasons)
    check_ambiguous_transitions(package, findings)
    check_unreachable_transitions(package, findings)
    check_routing(package, findings, production=production)
    check_unsatisfiable_rules(unsatisfiable, findings)
    check_conditions(package, findings, production=production, reported_names=unsatisfiable.exclusive_names())
    check_judged_rules(package, findings, production=production)
    check_automatic_tools(package, findings)
    check_people(package, findings)
    check_triggers(package, findings)


def check_manager_name(package: Package, findings: Findings) -> None:
    """Reports an agent with the manager's name.

    The ledger identifies the manager's model calls by that name.
    """
    if package.orchestrator.pattern == "AutoPattern" and MANAGER in package.agents:
        place = package.agents[MANAGER].place
        message = f"{MANAGER} is reserved for the manager of an AutoPattern; rename this agent"
        findings.add("error", "name_taken", agents_file(package), place, message)


def check_exposures(package: Package, findings: Findings) -> None:
    known = known_names(package)
    key = package.orchestrator.failure_message_key
    if key is not None and key not in known:
        message = f"names {key}, which is neither a variable nor an input, so it has no effect; define it"
        findings.add("warning", "undefined_variable", orchestrator_file(package), "failure_message_key", message)
    file = variables_file(package)
    for agent, names in package.exposures.items():
        path = exposure_place(package, agent)
        if agent not in package.agents:
            message = f"{agent} is not an agent of this package; correct the name or remove the entry"
            findings.add("warning", "unknown_agent", file, path, message)
        for name in names:
            if name not in known:
                message = f"exposes {name}, which is neither a variable nor an input; define it or remove it here"
                findings.add("warning", "undefined_variable", file, path, message)


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
