"""Awaited workflows: whether a package has the runs that a trigger waits for, which only all packages together tell."""

from collections.abc import Collection, Sequence

from workflows.package.checks.known import triggers_file
from workflows.package.findings import Finding, Findings
from workflows.package.models import Package
from workflows.package.trigger_specs.run_finished import RunFinishedSpec


def find_unknown_workflows(package: Package, workflows: Collection[str]) -> Sequence[Finding]:
    """Warnings, since runs are shared: other machines may work on packages that this one does not have."""
    findings = Findings()
    for spec in package.triggers:
        if isinstance(spec, RunFinishedSpec) and spec.workflow not in workflows:
            near = findings.suggest_name(spec.workflow, workflows)
            advice = f"did you mean {near}?" if near else "correct the name, or add that package"
            message = f"{spec.name} waits for runs of {spec.workflow}, which no package here has; {advice}"
            place = package.trigger_places.get(spec.name, "triggers")
            findings.add("warning", "unknown_workflow", triggers_file(package), f"{place}.workflow", message)
    return findings.all
