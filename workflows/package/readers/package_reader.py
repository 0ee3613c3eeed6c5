"""The package reader: calls the reader of each file and builds the normal form."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workflows.context.reads.supplied_values import BASE_FLAGS
from workflows.context.run_facts import FACT_TYPES
from workflows.package.files.package_files import METADATA_FIELDS, PackageFile
from workflows.package.findings import Findings
from workflows.package.normal_form.package_model import USER, Agent, Package, Pattern, Rule, Variable
from workflows.package.normal_form.structured_outputs import StructuredOutputs
from workflows.package.readers.agents_reader import read_agents
from workflows.package.readers.field_aliases import used_field_name
from workflows.package.readers.orchestrator_reader import read_orchestrator
from workflows.package.readers.outputs.structured_outputs_reader import read_structured_outputs
from workflows.package.readers.routing.routing_reader import read_rules
from workflows.package.readers.routing.worded_conditions import DeclaredTypes
from workflows.package.readers.section import Section
from workflows.package.readers.tools.hooks_reader import read_hooks
from workflows.package.readers.tools.tools_reader import read_tools
from workflows.package.readers.triggers_reader import read_triggers
from workflows.package.readers.variables.variable_definitions import find_exposure_places
from workflows.package.readers.variables.variables_reader import read_variables
from workflows.package.trigger_specs.trigger_spec import TriggerSpec


class PackageReader:
    """Reads a package.

    `files` are those in use: of two alternative files the pattern selects one.
    """

    def __init__(self, folder: Path, files: Mapping[str, PackageFile], findings: Findings) -> None:
        self._folder = folder
        self._all_findings = self._findings = findings
        self.files: dict[str, PackageFile] = dict(files)
        self._orchestrator = read_orchestrator(self._section("orchestrator"), folder_name=folder.name)
        self._drop_unused_file(self._orchestrator.pattern)
        self._agents = read_agents(self._section("agents"))
        self.is_complete = bool(self._agents) and all(file.is_readable for file in files.values())
        if not self._agents:  # without agents every reference to one would look unknown
            self._findings = Findings()

    def read_package(self, version: str) -> Package:
        agents = self._agents
        names = frozenset(agents)
        self._check_initial_agent(names)
        variables, exposures = read_variables(self._section("context_variables"), folder=self._folder)
        rules = self._read_rules(names, self._declared_types(variables))
        triggers = self._read_triggers()
        tools, lifecycle_tools = read_tools(self._section("tools"), folder=self._folder, agents=names)
        hooks, hook_file_tools = read_hooks(self._section("hooks", "middleware"), folder=self._folder, agents=names)
        package = Package(
            name=self._orchestrator.workflow_name,
            folder=self._folder,
            version=version,
            orchestrator=self._orchestrator,
            agents=agents,
            variables=variables,
            exposures=exposures,
            exposure_places=find_exposure_places(self._section("context_variables")),
            rules=rules,
            tools=tools,
            triggers=tuple(triggers.values()),
            findings=(),
            lifecycle_tools=(*lifecycle_tools, *hook_file_tools),
            outputs=self._read_outputs(agents),
            hooks=hooks,
            trigger_places={spec.name: place for place, spec in triggers.items()},
            file_names={stem: file.name for stem, file in self.files.items()},
        )
        if self._findings is not self._all_findings:
            self._include_agent_independent()
        return package

    def _drop_unused_file(self, pattern: Pattern) -> None:
        for pair in (("handoffs", "transition_graph"), ("hooks", "middleware")):
            used, unused = reversed(pair) if pattern == "ag2_network" else pair
            if used in self.files and unused in self.files:
                name = self.files.pop(unused).name
                message = f"is ignored, since {pattern} uses {self.files[used].name}; delete one of them"
                self._findings.add("warning", "ignored_file", name, "", message)

    def _section(self, *stems: str) -> Section:
        """Returns a file's section; empty if it is missing.

        Further findings of an unreadable file are dropped.
        """
        file = next((self.files[stem] for stem in stems if stem in self.files), None)
        findings = self._findings if file is None or file.is_readable else Findings()
        if file is None:
            return Section({}, file=stems[0], path="", findings=findings)
        return Section(file.body, file=file.name, path=file.wrapper, findings=findings, siblings=file.siblings)

    def _check_initial_agent(self, agents: frozenset[str]) -> None:
        first = self._orchestrator.initial_agent
        if first and first not in agents and first != USER:
            section = self._section("orchestrator")
            field = used_field_name(section, "initial_agent", "recipient", "initiating_agent")
            section.error("unknown_agent", field, f"{first} is not an agent of this package; name one")

    def _read_rules(self, agents: frozenset[str], declared_types: DeclaredTypes) -> tuple[Rule, ...]:
        section = self._section("handoffs", "transition_graph")
        return read_rules(section, agents=agents, declared_types=declared_types, pattern=self._orchestrator.pattern)

    def _declared_types(self, variables: Mapping[str, Variable]) -> DeclaredTypes:
        inputs = {name: spec.get("type") for name, spec in self._orchestrator.inputs.items()}
        flags: DeclaredTypes = dict.fromkeys(BASE_FLAGS, "boolean")
        return {**flags, **inputs, **{name: variable.type for name, variable in variables.items()}, **FACT_TYPES}

    def _read_outputs(self, agents: Mapping[str, Agent]) -> StructuredOutputs:
        required = frozenset(name for name, agent in agents.items() if agent.structured_outputs_required)
        return read_structured_outputs(self._section("structured_outputs"), agents=frozenset(agents), required=required)

    def _read_triggers(self) -> dict[str, TriggerSpec]:
        """Reads triggers from their own file, or from the orchestrator file."""
        own, orchestrator = self.files.get("triggers"), self.files["orchestrator"]
        inside = orchestrator.body.get("triggers") if isinstance(orchestrator.body, Mapping) else None
        if own is None or (inside and own.is_readable and not _has_triggers(own.body)):
            self.files.pop("triggers", None)  # so that findings name the orchestrator file
            path = "" if "triggers" in orchestrator.siblings else orchestrator.wrapper
            return read_triggers(inside or [], file=orchestrator.name, findings=self._findings, path=path)
        if inside:
            message = f"are also in {orchestrator.name}; keep them in one file"
            self._findings.add("error", "two_files", own.name, "triggers", message)
        return read_triggers(own.body, file=own.name, findings=self._findings, path=own.wrapper, siblings=own.siblings)

    def _include_agent_independent(self) -> None:
        for finding in self._findings.all:
            if finding.code != "unknown_agent":
                self._all_findings.add_finding(finding)


def _has_triggers(body: Any) -> bool:
    """Returns whether a file has triggers. It may be empty, or have an empty list."""
    if isinstance(body, Mapping):
        return any(value not in (None, [], {}) for key, value in body.items() if key not in METADATA_FIELDS)
    return body not in (None, [])
