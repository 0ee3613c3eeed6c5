"""Packages in normal form for tests of checks across files, without findings by default."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from workflows.package.checks.package_checks import check_package
from workflows.package.findings import Findings
from workflows.package.normal_form.package_model import Agent, Orchestrator, Package, Rule, Tool, Variable
from workflows.package.normal_form.variable_sources import Source, StateSource

ORCH, G, V, H, T = "orchestrator.yaml", "agents.yaml", "context_variables.json", "handoffs.json", "triggers.yaml"
FILES = {"orchestrator": ORCH, "agents": G, "context_variables": V, "handoffs": H, "triggers": T, "tools": "tools.yaml"}

FindingKey = tuple[str, str, str, str]


def agents(*names: str, **prompts: str) -> dict[str, Agent]:
    return {name: Agent(name, prompts.get(name, f"You are {name}.")) for name in (*names, *prompts)}


def rules(*texts: str, **fields: Any) -> tuple[Rule, ...]:
    """Parses rules such as `A > B if ${x}`; their places are handoff_rules[0], [1] …"""
    return tuple(_rule(text, f"handoff_rules[{index}]", fields) for index, text in enumerate(texts))


def _rule(text: str, place: str, fields: Mapping[str, Any]) -> Rule:
    way, _, condition = text.partition(" if ")
    source, _, target = way.partition(" > ")
    return Rule(source=source, target=target, condition=condition or None, place=place, **fields)


def variables(**declared: Source) -> dict[str, Variable]:
    return {name: Variable(name, "string", source) for name, source in declared.items()}


def states(*names: str) -> dict[str, Variable]:
    return variables(**{name: StateSource() for name in names})


def tool(function: str, agent: str = "A", **fields: Any) -> Tool:
    return Tool(agents=(agent,), file=Path(f"{function}.py"), function=function, description="", **fields)


def package(*, orchestrator: Mapping[str, Any] | None = None, **parts: Any) -> Package:
    """Returns a package: A hands over to B, and B ends the chat, unless the parts differ."""
    clean = Package(
        name="Small",
        folder=Path("/nowhere"),
        version="1",
        orchestrator=Orchestrator(**{"workflow_name": "Small", "initial_agent": "A", **(orchestrator or {})}),
        agents=agents("A", "B"),
        variables={},
        exposures={},
        rules=rules("A > B", "B > terminate"),
        tools=(),
        triggers=(),
        findings=(),
        file_names=FILES,
    )
    return replace(clean, **parts)


def findings_of(checked: Package, check: Callable[..., None] = check_package, **options: Any) -> list[FindingKey]:
    return [(finding.level, finding.code, finding.file, finding.path) for finding in _all(checked, check, options)]


def findings_after_an_error(checked: Package, file: str) -> list[FindingKey]:
    """Returns the findings after the reader has refused a part of this file."""
    findings = Findings()
    findings.add("error", "wrong_type", file, "", "is wrong")
    check_package(checked, findings)
    return [(finding.level, finding.code, finding.file, finding.path) for finding in findings.all[1:]]


def messages(checked: Package, code: str, **options: Any) -> list[str]:
    return [finding.message for finding in _all(checked, check_package, options) if finding.code == code]


def _all(checked: Package, check: Callable[..., None], options: Mapping[str, Any]) -> Iterable[Any]:
    findings = Findings()
    check(checked, findings, **options)
    return findings.all
