"""Checks for people: what a package asks of somebody who is not there in a headless run."""

from collections.abc import Collection, Hashable, Sequence
from collections.abc import Set as AbstractSet

from workflows.context.state.state_transitions import StateTrigger, Transition, Unset, captured_group
from workflows.context.values.value_types import value_key
from workflows.package.checks.file_places import (
    orchestrator_file,
    routing_file,
    rule_place,
    variable_place,
    variables_file,
)
from workflows.package.checks.routing.condition_checks import referenced_variables
from workflows.package.findings import Findings
from workflows.package.normal_form.package_model import USER, Hook, LifecycleTool, Package, Tool, Variable
from workflows.package.normal_form.variable_sources import StateSource
from workflows.package.readers.code.context_writes import find_names_set_without_asking
from workflows.package.readers.code.parsed_code import read_code
from workflows.package.trigger_specs.ui_responses import UIResponses, guaranteed_keys

_UI_RESPONSE = "ui_response"


def check_people(package: Package, findings: Findings) -> None:
    if package.orchestrator.human_in_the_loop:
        message = "nobody is in a headless chat: a hand-off to user ends the run as needs_human; set it to false"
        findings.add("warning", "human_in_the_loop", orchestrator_file(package), "human_in_the_loop", message)
    _check_rules_to_user(package, findings)
    _check_rules_of_user(package, findings)
    _check_judged_rules_of_user(package, findings)
    _check_ui_responses(package, findings)
    if not package.orchestrator.human_in_the_loop:
        _check_user_text_triggers(package, findings)


def _check_rules_to_user(package: Package, findings: Findings) -> None:
    """Once for all of them: that is how such packages are written."""
    index = next((index for index, rule in enumerate(package.rules) if rule.target == USER), None)
    if index is None:
        return
    place = rule_place(package, index)
    if package.orchestrator.human_in_the_loop:
        message = "hands over to user: the run ends there as needs_human, and goes on when somebody answers"
        findings.add("info", "hands_to_user", routing_file(package), place, message)
    else:
        message = "hands over to user: nobody is there, so the run is completed; use terminate if that is meant"
        findings.add("warning", "hands_to_user", routing_file(package), place, message)


def _check_rules_of_user(package: Package, findings: Findings) -> None:
    if package.orchestrator.initial_agent == USER:
        return
    index = next((index for index, rule in enumerate(package.rules) if rule.source == USER), None)
    if index is not None:
        message = "has the source user: it is asked only when somebody answers; give it to an agent if it must apply"
        findings.add("warning", "rule_of_user", routing_file(package), rule_place(package, index), message)


def _check_judged_rules_of_user(package: Package, findings: Findings) -> None:
    for index, rule in enumerate(package.rules):
        if rule.source == USER and rule.judgement is not None:
            message = (
                "is for a model to judge while it replies, and user has no model: it is never asked;"
                " write an expression over what the answer sets"
            )
            findings.add("warning", "judged_for_user", routing_file(package), rule_place(package, index), message)


def _check_user_text_triggers(package: Package, findings: Findings) -> None:
    message = (
        "waits for what a user answers, and with human_in_the_loop false nobody is asked; set it to true, or give the"
        " value as an input of the run"
    )
    for variable in package.variables.values():
        for transition in _state_transitions(variable):
            if transition.trigger.type == "user_text":
                findings.add(
                    "warning", "never_fires", variables_file(package), f"{transition.trigger_place}.type", message
                )


def _check_ui_responses(package: Package, findings: Findings) -> None:
    waiting = [name for name, variable in package.variables.items() if _awaits_person(variable, package)]
    written = _names_set_by_code(package) if waiting else frozenset()
    waiting = [name for name in waiting if name not in written]
    for name in waiting:
        message = (
            f"{name} waits for an answer in a user interface, where nobody is in a headless run;"
            " let a tool or an agent's text set it, or every trigger answer with ui_responses"
        )
        findings.add("warning", "needs_ui", variables_file(package), variable_place(package, name), message)
    only = {name for name in waiting if _changes_only_by_ui(package.variables[name])}
    if only:
        _check_rules_awaiting_ui(package, only, findings)


def _check_rules_awaiting_ui(package: Package, waiting_names: AbstractSet[str], findings: Findings) -> None:
    for index, rule in enumerate(package.rules):
        for name in sorted(referenced_variables(rule) & waiting_names):
            message = (
                f"{name} changes only by an answer in a user interface, and this rule depends on it;"
                " let a tool or an agent's text set it, or every trigger answer with ui_responses"
            )
            findings.add("warning", "waits_for_ui", routing_file(package), rule_place(package, index), message)


def _state_transitions(variable: Variable) -> Sequence[Transition]:
    return variable.source.transitions if isinstance(variable.source, StateSource) else ()


def _awaits_person(variable: Variable, package: Package) -> bool:
    """Whether it needs a person: some trigger gives no answer in advance, and nothing else leads to the same value."""
    answers = [spec.ui_responses for spec in package.triggers]
    asked = [
        transition
        for transition in _state_transitions(variable)
        if transition.trigger.type == _UI_RESPONSE
        and (not answers or any(not _is_answered(transition.trigger, given, package) for given in answers))
    ]
    if not asked:
        return False
    others = [
        transition for transition in _state_transitions(variable) if not _needs_person(transition.trigger, package)
    ]
    return not all(_is_replaced(transition, others) for transition in asked)


def _needs_person(trigger: StateTrigger, package: Package) -> bool:
    if trigger.type == "user_text":
        return not package.orchestrator.human_in_the_loop
    shows = {tool.function for tool in package.tools if tool.kind != "Agent_Tool"}
    return trigger.type == _UI_RESPONSE or getattr(trigger, "tool", None) in shows


def _is_replaced(transition: Transition, others: Collection[Transition]) -> bool:
    """Whether another one leads to the same value, or may lead to any."""
    to = _target_key(transition)
    return any(to is None or end is None or end == to for end in map(_target_key, others))


def _target_key(transition: Transition) -> Hashable | None:
    """The value that it leads to; None where that is part of a reply or an answer."""
    if isinstance(transition.to, Unset):
        return None if getattr(transition.trigger, "response_key", None) is not None else value_key(True)
    return None if captured_group(transition.to) is not None else value_key(transition.to)


def _names_set_by_code(package: Package) -> frozenset[str]:
    """Variables that tools, lifecycle tools and hooks set without asking a person."""
    parts: list[Tool | LifecycleTool | Hook] = [*package.tools, *package.lifecycle_tools, *package.hooks]
    return frozenset().union(*map(find_names_set_without_asking, {part.file for part in parts}))


def _is_answered(trigger: StateTrigger, ui_responses: UIResponses, package: Package) -> bool:
    """Under the name of the tool, or under the one that its file asks for."""
    tool = getattr(trigger, "tool", "")
    asked = (read_code(entry.file).ui_tools for entry in package.tools if entry.function == tool)
    key = getattr(trigger, "response_key", None)
    given = (guaranteed_keys(ui_responses[name]) for name in {tool}.union(*asked) if name in ui_responses)
    return any(key is None or key in keys for keys in given)


def _changes_only_by_ui(variable: Variable) -> bool:
    return all(transition.trigger.type == _UI_RESPONSE for transition in _state_transitions(variable))
