"""A package in normal form: what every dialect is reduced to, small and strict."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from workflows.context.values.value_types import ValueType
from workflows.package.findings import Finding
from workflows.package.normal_form.structured_outputs import StructuredOutputs
from workflows.package.normal_form.variable_sources import Source, SourceKind
from workflows.package.trigger_specs.trigger_spec import TriggerSpec

USER = "user"
TERMINATE = "terminate"
ALL_AGENTS = "all"
DEFAULT_MODEL = "default"
MANAGER = "group_manager"  # who asks a model for the next speaker, in an AutoPattern

Pattern = Literal["DefaultPattern", "AutoPattern", "RoundRobinPattern", "RandomPattern", "Pipeline", "ag2_network"]
StartupMode = Literal["AgentDriven", "UserDriven", "BackendOnly"]
ToolKind = Literal["Agent_Tool", "UI_Tool", "UI_Surface"]
OnError = Literal["tell", "fail"]
Moment = Literal["before_chat", "after_chat", "before_agent", "after_agent", "on_start", "on_complete", "on_fail"]
HookKind = Literal[
    "update_agent_state",
    "process_message_before_send",
    "process_last_received_message",
    "process_all_messages_before_reply",
]


@dataclass(frozen=True, slots=True)
class Limits:
    max_turns: int = 50
    wall_clock_s: float = 3600
    model_calls: int = 500
    tool_calls: int = 500
    tokens: int | None = None
    usd: float | None = None


@dataclass(frozen=True, slots=True)
class Orchestrator:
    """`initial_agent` may be `user`: then the rules of `user` choose the first speaker."""

    workflow_name: str
    initial_agent: str
    pattern: Pattern = "DefaultPattern"
    startup_mode: StartupMode = "BackendOnly"
    human_in_the_loop: bool = False
    initial_message: str | None = None
    failure_message_key: str | None = None
    inputs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    required_environment: tuple[str, ...] = ()  # names of variables that its tools read from the worker's environment


@dataclass(frozen=True, slots=True)
class Agent:
    name: str
    system_message: str
    model: str = DEFAULT_MODEL
    description: str = ""
    max_consecutive_auto_reply: int | None = None  # turns in a row; None: as many as other limits allow
    auto_tool_mode: bool = False
    structured_outputs_required: bool = False
    place: str = field(default="", compare=False)  # where it stands in its file, as agents[2]; for findings


@dataclass(frozen=True, slots=True)
class Variable:
    name: str
    type: ValueType
    source: Source
    default: Any = None
    required: bool = False
    description: str = ""
    place: str = field(default="", compare=False)  # where it stands in its file, as definitions[2]; for findings
    enum: tuple[Any, ...] = ()

    @property
    def kind(self) -> SourceKind:
        return self.source.kind


@dataclass(frozen=True, slots=True)
class Rule:
    """A hand-off: always, while the expression `condition` holds, or when a model judges that `judged` does.

    `place` is where it stands in its file, for findings."""

    source: str
    target: str
    condition: str | None = None
    judgement: str | None = None
    scope: Literal["pre", "post"] = "post"
    termination_reason: str | None = None
    description: str = ""
    place: str = ""


@dataclass(frozen=True, slots=True)
class Tool:
    """`bound`: the agent's model may call it. UI tools need a person, who is there when the trigger answers.
    `on_error`: whether the model is told of a failed call, or the run fails."""

    agents: tuple[str, ...]
    file: Path
    function: str
    description: str
    kind: ToolKind = "Agent_Tool"
    bound: bool = True
    auto_invoke: bool = False
    timeout_s: float | None = None
    on_error: OnError = "tell"
    has_effects: bool = True  # whether a call may change anything; taken for granted unless the author says none
    place: str = field(default="", compare=False)  # where it stands in its file, as tools[2]; for findings

    @property
    def is_offered(self) -> bool:
        """Whether the model of its agents sees it."""
        return self.bound


@dataclass(frozen=True, slots=True)
class LifecycleTool:
    moment: Moment
    agent: str | None
    file: Path
    function: str


@dataclass(frozen=True, slots=True)
class Hook:
    """`agent` is a name or `all`."""

    kind: HookKind
    agent: str
    file: Path
    function: str


@dataclass(frozen=True, slots=True)
class EntryCounts:
    """Entries as written in the files that count, before anything is merged, dropped or refused."""

    agents: int = 0
    tools: int = 0
    lifecycle_tools: int = 0
    handoffs: int = 0
    variables: int = 0
    models: int = 0
    hooks: int = 0
    triggers: int = 0


@dataclass(frozen=True, slots=True)
class Package:
    name: str
    folder: Path
    version: str
    orchestrator: Orchestrator
    agents: Mapping[str, Agent]
    variables: Mapping[str, Variable]
    exposures: Mapping[str, tuple[str, ...]]
    rules: tuple[Rule, ...]
    tools: tuple[Tool, ...]
    triggers: tuple[TriggerSpec, ...]
    findings: tuple[Finding, ...]
    lifecycle_tools: tuple[LifecycleTool, ...] = ()
    hooks: tuple[Hook, ...] = ()
    outputs: StructuredOutputs = field(default_factory=StructuredOutputs)
    # Where the entry of each agent that sees variables stands, as agents[2]; for findings.
    exposure_places: Mapping[str, str] = field(default_factory=dict, compare=False)
    trigger_places: Mapping[str, str] = field(default_factory=dict)  # name -> triggers[1]; for findings
    # The file that each stem was read from, as tools -> tools.json: what findings of checks across files name.
    file_names: Mapping[str, str] = field(default_factory=dict)

    @property
    def model_aliases(self) -> frozenset[str]:
        """What a models file must have for it; the manager of an AutoPattern has the default model."""
        managed = self.orchestrator.pattern == "AutoPattern" and len(self.agents) > 1
        return frozenset(agent.model for agent in self.agents.values()) | ({DEFAULT_MODEL} if managed else set())

    @property
    def is_refused(self) -> bool:
        return any(finding.level == "error" for finding in self.findings)
