"""What a package's parts may name: the facts of every run, its inputs and variables; and where they stand."""

from collections.abc import Set as AbstractSet
from typing import Any

from workflows.context.reads.supplied_values import BASE_FLAGS
from workflows.context.run_facts import FIXED_NAMES
from workflows.package.findings import Findings
from workflows.package.normal_form.package_model import Package

KEY_FACTS = FIXED_NAMES - {"trigger"}  # the scalars: what a query, an address or a key of a document can say
BASE_NAMES = FIXED_NAMES | set(BASE_FLAGS)
_MAX_VALUE_CHARACTERS = 100
_MAX_NAMES = 12


def known_names(package: Package) -> AbstractSet[str]:
    return BASE_NAMES | set(package.variables) | set(package.orchestrator.inputs)


def join_names(names: AbstractSet[str] | tuple[str, ...]) -> str:
    """`A, B and C`, sorted when the order means nothing."""
    words = list(names) if isinstance(names, tuple) else sorted(names)
    if len(words) > _MAX_NAMES:
        words = [*words[:_MAX_NAMES], f"{len(words) - _MAX_NAMES} more"]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def display(value: Any) -> str:
    try:
        text = repr(value)
    except ValueError:  # a number of thousands of digits
        return f"a huge {type(value).__name__}"
    return text if len(text) <= _MAX_VALUE_CHARACTERS else f"{text[:_MAX_VALUE_CHARACTERS]}…"


def has_errors_in(findings: Findings, *files: str) -> bool:
    """Whether a part of these files was refused: then what it should have said would look as if it were missing."""
    return any(each.level == "error" and each.file in files for each in findings.all)


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
    """Of two routing files the pattern says which one was read."""
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
