"""Checks for people: parts of a package that need an absent person."""

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
from workflows.package.readers.code.context_writes import find_unconditional_writes
from workflows.package.readers.code.parsed_code import read_code
from workflows.package.trigger_specs.ui_responses import UIResponses, guaranteed_keys

_UI_RESPONSE = "ui_response"


def check_people(package: Package, findings: Findings) -> None:
    if package.orchestrator.human_in_the_loop:
        message = (
            "is true, but a headless chat has no user: a hand-off to user stops the run as needs_human; set it to false"
        )
        findings.add("warning", "human_in_the_loop", orchestrator_file(package), "human_in_the_loop", message)
    _check_rules_to_user(package, findings)
    _check_rules_of_user(package, findings)
    _check_judged_rules_of_user(package, findings)
    _check_ui_responses(package, findings)
    if not package.orchestrator.human_in_the_loop:
        _check_user_text_triggers(package, findings)


def _check_rules_to_user(package: Package, findings: Findings) -> None:
    """Reports the first hand-off to user only, since such packages have many."""
    index = next((index for index, rule in enumerate(package.rules) if rule.target == USER), None)
    if index is None:
        return
    place = rule_place(package, index)
    if package.orchestrator.human_in_the_loop:
        message = "hands over to user: the run stops as needs_human, and continues after an answer"
        findings.add("info", "hands_to_user", routing_file(package), place, message)
    else:
        message = "hands over to user, who is absent, so the run is completed; write terminate if that is intended"
        findings.add("warning", "hands_to_user", routing_file(package), place, message)


def _check_rules_of_user(package: Package, findings: Findings) -> None:
    if package.orchestrator.initial_agent == USER:
        return
    index = next((index for index, rule in enumerate(package.rules) if rule.source == USER), None)
    if index is not None:
        message = "has the source user: it is evaluated only after an answer of a person; use an agent as source"
        findings.add("warning", "rule_of_user", routing_file(package), rule_place(package, index), message)


def _check_judged_rules_of_user(package: Package, findings: Findings) -> None:
    for index, rule in enumerate(package.rules):
        if rule.source == USER and rule.judgement is not None:
            message = (
                "is judged by a model during its reply, and user has no model: it is never evaluated;"
                " write an expression over variables that the answer sets"
            )
            findings.add("warning", "judged_for_user", routing_file(package), rule_place(package, index), message)


def _check_user_text_triggers(package: Package, findings: Findings) -> None:
    message = (
        "waits for a user's answer, and with human_in_the_loop false no user is asked; set it to true, or supply the"
        " value as an input of the run"
    )
    for variable in package.variables.values():
        for transition in _state_transitions(variable):
            if transition.trigger.type == "user_text":
                findings.add(
                    "warning", "never_fires", variables_file(package), f"{transition.trigger_place}.type", message
                )


def _check_ui_responses(package: Package, findings: Findings) -> None:
    names = [name for name, variable in package.variables.items() if _awaits_person(variable, package)]
    names_set_by_code = _names_set_by_code(package) if names else frozenset()
    names = [name for name in names if name not in names_set_by_code]
    for name in names:
        message = (
            f"{name} waits for an answer in a user interface, which a headless run does not have;"
            " set it by a tool or an agent's text, or add ui_responses to every trigger"
        )
        findings.add("warning", "needs_ui", variables_file(package), variable_place(package, name), message)
    ui_only = {name for name in names if _changes_only_by_ui(package.variables[name])}
    if ui_only:
        _check_rules_awaiting_ui(package, ui_only, findings)


def _check_rules_awaiting_ui(package: Package, waiting_names: AbstractSet[str], findings: Findings) -> None:
    for index, rule in enumerate(package.rules):
        for name in sorted(referenced_variables(rule) & waiting_names):
            message = (
                f"depends on {name}, which changes only by an answer in a user interface;"
                " set it by a tool or an agent's text, or add ui_responses to every trigger"
            )
            findings.add("warning", "waits_for_ui", routing_file(package), rule_place(package, index), message)


def _state_transitions(variable: Variable) -> Sequence[Transition]:
    return variable.source.transitions if isinstance(variable.source, StateSource) else ()


def _awaits_person(variable: Variable, package: Package) -> bool:
    """Returns whether only a person can set a value.

    Then no trigger answers, and no other transition leads to the value.
    """
    answers = [spec.ui_responses for spec in package.triggers]
    unanswered = [
        transition
        for transition in _state_transitions(variable)
        if transition.trigger.type == _UI_RESPONSE
        and (not answers or any(not _is_answered(transition.trigger, responses, package) for responses in answers))
    ]
    if not unanswered:
        return False
    others = [
        transition for transition in _state_transitions(variable) if not _needs_person(transition.trigger, package)
    ]
    return not all(_is_replaced(transition, others) for transition in unanswered)


def _needs_person(trigger: StateTrigger, package: Package) -> bool:
    if trigger.type == "user_text":
        return not package.orchestrator.human_in_the_loop
    shows = {tool.function for tool in package.tools if tool.kind != "Agent_Tool"}
    return trigger.type == _UI_RESPONSE or getattr(trigger, "tool", None) in shows


def _is_replaced(transition: Transition, others: Collection[Transition]) -> bool:
    """Returns whether another transition may lead to the same value."""
    to = _target_key(transition)
    return any(to is None or end is None or end == to for end in map(_target_key, others))


def _target_key(transition: Transition) -> Hashable | None:
    """Returns the value that a transition leads to.

    Returns None if it is part of a reply or an answer.
    """
    if isinstance(transition.to, Unset):
        return None if getattr(transition.trigger, "response_key", None) is not None else value_key(True)
    return None if captured_group(transition.to) is not None else value_key(transition.to)


def _names_set_by_code(package: Package) -> frozenset[str]:
    """Returns the variables that code sets without asking a person."""
    parts: list[Tool | LifecycleTool | Hook] = [*package.tools, *package.lifecycle_tools, *package.hooks]
    return frozenset().union(*map(find_unconditional_writes, {part.file for part in parts}))


def _is_answered(trigger: StateTrigger, ui_responses: UIResponses, package: Package) -> bool:
    """Returns whether the trigger answers this tool.

    The answer is under the tool's name, or under a name that its file asks for.
    """
    tool = getattr(trigger, "tool", "")
    ui_tools = (read_code(entry.file).ui_tools for entry in package.tools if entry.function == tool)
    key = getattr(trigger, "response_key", None)
    key_sets = (guaranteed_keys(ui_responses[name]) for name in {tool}.union(*ui_tools) if name in ui_responses)
    return any(key is None or key in keys for keys in key_sets)


def _changes_only_by_ui(variable: Variable) -> bool:
    return all(transition.trigger.type == _UI_RESPONSE for transition in _state_transitions(variable))
