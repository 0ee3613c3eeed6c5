"""Checks of names: exposures and the failure message name existing values."""

from workflows.package.checks.file_places import agents_file, exposure_place, orchestrator_file, variables_file
from workflows.package.checks.known_names import known_names
from workflows.package.findings import Findings
from workflows.package.normal_form.package_model import MANAGER, Package


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
