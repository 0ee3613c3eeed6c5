"""A package in normal form: what every dialect is reduced to, small and strict."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from workflows.package.findings import Finding
from workflows.package.trigger_specs import TriggerSpec

USER = "user"
TERMINATE = "terminate"

Pattern = Literal["DefaultPattern", "AutoPattern", "RoundRobinPattern", "RandomPattern", "Pipeline", "ag2_network"]
SourceKind = Literal["env", "db", "static", "state", "runtime"]
ValueType = Literal["string", "boolean", "integer", "number", "object", "array"]


@dataclass(frozen=True, slots=True)
class Limits:
    max_turns: int = 50
    wall_clock_s: float = 3600
    model_calls: int = 500


@dataclass(frozen=True, slots=True)
class Orchestrator:
    workflow_name: str
    initial_agent: str
    pattern: Pattern = "DefaultPattern"
    human_in_the_loop: bool = False
    initial_message: str | None = None
    inputs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class Agent:
    name: str
    system_message: str
    model: str = "default"


@dataclass(frozen=True, slots=True)
class AgentText:
    """Sets its variable when `agent` says something that matches; exactly one of the three is given."""

    agent: str
    equals: str | None = None
    contains: str | None = None
    regex: str | None = None
    value: Any = True


@dataclass(frozen=True, slots=True)
class Variable:
    name: str
    type: ValueType
    kind: SourceKind
    default: Any = None
    required: bool = False
    env_var: str | None = None
    database: str | None = None
    collection: str | None = None
    query: Mapping[str, Any] = field(default_factory=dict)
    fields: tuple[str, ...] = ()
    triggers: tuple[AgentText, ...] = ()


@dataclass(frozen=True, slots=True)
class Rule:
    """A hand-off. `condition` is an expression, None means always."""

    source: str
    target: str
    condition: str | None = None
    scope: Literal["pre", "post"] = "post"
    termination_reason: str | None = None


@dataclass(frozen=True, slots=True)
class Tool:
    agents: tuple[str, ...]
    file: Path
    function: str
    description: str


@dataclass(frozen=True, slots=True)
class Package:
    name: str
    folder: Path
    version: str
    orchestrator: Orchestrator
    agents: Mapping[str, Agent]
    variables: Mapping[str, Variable]
    exposed: Mapping[str, tuple[str, ...]]
    rules: tuple[Rule, ...]
    tools: tuple[Tool, ...]
    triggers: tuple[TriggerSpec, ...]
    findings: tuple[Finding, ...]

    @property
    def refused(self) -> bool:
        return any(finding.level == "error" for finding in self.findings)
