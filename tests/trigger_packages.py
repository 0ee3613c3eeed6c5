"""Packages that hold nothing but triggers."""

from pathlib import Path

from workflows.package.normal_form.package_model import Orchestrator, Package
from workflows.package.trigger_specs.trigger_spec import TriggerSpec


def package_with_triggers(*triggers: TriggerSpec, name: str = "Digest") -> dict[str, Package]:
    package = Package(
        name=name,
        folder=Path(name),
        version="1",
        orchestrator=Orchestrator(workflow_name=name, initial_agent="Writer"),
        agents={},
        variables={},
        exposures={},
        rules=(),
        tools=(),
        triggers=triggers,
        findings=(),
    )
    return {name: package}
