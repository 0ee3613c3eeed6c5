"""All checks across files, in the order of their findings."""

from workflows.package.checks.automatic_tool_checks import check_automatic_tools
from workflows.package.checks.name_checks import check_exposures, check_manager_name
from workflows.package.checks.people_checks import check_people
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
from workflows.package.normal_form.package_model import Package


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
