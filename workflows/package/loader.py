"""Loads a package: raw files, then normal form, then what does not fit together. Nothing of it is executed."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from workflows.package.checks import check_variables
from workflows.package.files import PackageFile, content_version, is_package, read_package_files
from workflows.package.findings import Finding, Findings, PackageError
from workflows.package.models import Orchestrator, Package, Rule
from workflows.package.reading.agents import read_agents
from workflows.package.reading.orchestrator import read_orchestrator
from workflows.package.reading.routing import read_rules
from workflows.package.reading.section import Section
from workflows.package.reading.tools import read_tools
from workflows.package.reading.triggers import read_triggers
from workflows.package.reading.variables import read_variables
from workflows.package.trigger_specs import TriggerSpec

_NOT_SUPPORTED = ("structured_outputs", "hooks", "middleware")


def load_package(folder: Path) -> Package:
    """PackageError when the files cannot be read; errors in their meaning are findings of the package."""
    try:
        return _load(folder.resolve())
    except OSError as error:
        place = Path(error.filename).name if isinstance(error.filename, str) else folder.name
        message = f"cannot be read: {error.strerror or error}"
        raise PackageError(Finding("error", "unreadable", place, "", message)) from None
    except RecursionError:
        raise PackageError(Finding("error", "unreadable", folder.name, "", "is nested too deeply")) from None


def _load(folder: Path) -> Package:
    if not is_package(folder):
        message = "is not a package: it needs an orchestrator and an agents file (.yaml, .yml or .json)"
        raise PackageError(Finding("error", "not_a_package", str(folder), "", message))
    version = content_version(folder)
    files = read_package_files(folder)
    findings = Findings()

    orchestrator_section = _section(files, "orchestrator", findings)
    orchestrator = read_orchestrator(orchestrator_section, folder_name=folder.name)
    agents = read_agents(_section(files, "agents", findings))
    names = frozenset(agents)
    if orchestrator.initial_agent and orchestrator.initial_agent not in names:
        message = f"{orchestrator.initial_agent} is not an agent of this package"
        orchestrator_section.error("unknown_agent", "initial_agent", message)
    variables, exposed = read_variables(_section(files, "context_variables", findings))
    rules = _rules(files, orchestrator, names, findings)
    tools = read_tools(_section(files, "tools", findings), folder=folder, agents=names)
    triggers = _triggers(files, findings)
    _report_not_supported(files, findings)
    package = Package(
        name=orchestrator.workflow_name,
        folder=folder,
        version=version,
        orchestrator=orchestrator,
        agents=agents,
        variables=variables,
        exposed=exposed,
        rules=rules,
        tools=tools,
        triggers=triggers,
        findings=(),
    )
    check_variables(package, findings)
    return replace(package, findings=findings.all)


def _section(files: Mapping[str, PackageFile], stem: str, findings: Findings) -> Section:
    file = files.get(stem)
    body: Any = {} if file is None else file.body
    if stem in ("agents", "tools") and isinstance(body, list):
        body = {stem: body}  # a bare list is the list the file is named after
    return Section(body, file=file.name if file else stem, path="", findings=findings)


def _rules(
    files: Mapping[str, PackageFile], orchestrator: Orchestrator, agents: frozenset[str], findings: Findings
) -> tuple[Rule, ...]:
    """Packages of the transition have both files; the pattern says which one counts."""
    stem, other = ("handoffs", "transition_graph")
    if orchestrator.pattern == "ag2_network":
        stem, other = other, stem
    if stem in files and other in files:
        message = f"is ignored, since {files[stem].name} is what {orchestrator.pattern} reads"
        findings.add("warning", "ignored_file", files[other].name, "", message)
    chosen = stem if stem in files else other
    if chosen not in files:
        return ()
    return read_rules(_section(files, chosen, findings), agents=agents)


def _triggers(files: Mapping[str, PackageFile], findings: Findings) -> tuple[TriggerSpec, ...]:
    """`triggers.yaml`, or `triggers:` inside the orchestrator file."""
    own, orchestrator = files.get("triggers"), files["orchestrator"]
    inside = orchestrator.body.get("triggers") if isinstance(orchestrator.body, Mapping) else None
    if own is not None and inside:
        findings.add("error", "two_files", own.name, "triggers", f"stands in {orchestrator.name} too; keep one place")
    if own is not None:
        return read_triggers(own.body, file=own.name, findings=findings)
    return read_triggers(inside or [], file=orchestrator.name, findings=findings)


def _report_not_supported(files: Mapping[str, PackageFile], findings: Findings) -> None:
    """What would change how agents behave is refused rather than left out in silence."""
    for stem in _NOT_SUPPORTED:
        file = files.get(stem)
        if file is not None and _says_something(file.body):
            message = f"{stem} are not supported; leave them out"
            findings.add("error", "unsupported", file.name, "", message)


def _says_something(body: Any) -> bool:
    if isinstance(body, Mapping):
        return any(_says_something(value) for key, value in body.items() if key != "schema_version")
    if isinstance(body, list):
        return any(_says_something(value) for value in body)
    return body is not None
