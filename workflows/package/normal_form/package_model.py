"""The normal form of a package, to which every dialect is reduced."""

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
MANAGER = "group_manager"  # the speaker in an AutoPattern whose model chooses the next agent

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
    """How a chat starts and ends.

    If `initial_agent` is `user`, the rules of `user` choose the first speaker.
    """

    workflow_name: str
    initial_agent: str
    pattern: Pattern = "DefaultPattern"
    startup_mode: StartupMode = "BackendOnly"
    human_in_the_loop: bool = False
    initial_message: str | None = None
    failure_message_key: str | None = None
    inputs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    required_environment: tuple[str, ...] = ()  # names of variables that tools read from the worker's environment


@dataclass(frozen=True, slots=True)
class Agent:
    name: str
    system_message: str
    model: str = DEFAULT_MODEL
    description: str = ""
    max_consecutive_auto_reply: int | None = None  # turns in a row; None: no limit of its own
    auto_tool_mode: bool = False
    structured_outputs_required: bool = False
    place: str = field(default="", compare=False)  # its place in the file, as agents[2]; for findings


@dataclass(frozen=True, slots=True)
class Variable:
    name: str
    type: ValueType
    source: Source
    default: Any = None
    required: bool = False
    description: str = ""
    place: str = field(default="", compare=False)  # its place in the file, as definitions[2]; for findings
    enum: tuple[Any, ...] = ()

    @property
    def kind(self) -> SourceKind:
        return self.source.kind


@dataclass(frozen=True, slots=True)
class Rule:
    """A hand-off with its condition.

    It holds always, by the expression `condition`, or when a model judges that `judgement` holds. `place` is its place
    in the file, for findings.
    """

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
    """A function that agents call.

    `bound`: the agent's model may call it. UI tools need an answer of a person or of the trigger. `on_error`: a failed
    call is returned to the model, or fails the run.
    """

    agents: tuple[str, ...]
    file: Path
    function: str
    description: str
    kind: ToolKind = "Agent_Tool"
    bound: bool = True
    auto_invoke: bool = False
    timeout_s: float | None = None
    on_error: OnError = "tell"
    has_effects: bool = True  # false only if the author declares that calls change nothing
    place: str = field(default="", compare=False)  # its place in the file, as tools[2]; for findings

    @property
    def is_offered(self) -> bool:
        """Returns whether the models of its agents see the tool."""
        return self.bound


@dataclass(frozen=True, slots=True)
class LifecycleTool:
    moment: Moment
    agent: str | None
    file: Path
    function: str


@dataclass(frozen=True, slots=True)
class Hook:
    """A function that changes prompts or replies. `agent` is a name or `all`."""

    kind: HookKind
    agent: str
    file: Path
    function: str


@dataclass(frozen=True, slots=True)
class EntryCounts:
    """The numbers of entries in the files that are used.

    They count before any entry is merged, dropped or refused.
    """

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
    # By agent, the place of its exposures in the file, as agents[2]; for findings.
    exposure_places: Mapping[str, str] = field(default_factory=dict, compare=False)
    trigger_places: Mapping[str, str] = field(default_factory=dict)  # name -> triggers[1]; for findings
    # By stem, the file that was read, as tools -> tools.json; for findings of checks across files.
    file_names: Mapping[str, str] = field(default_factory=dict)

    @property
    def model_aliases(self) -> frozenset[str]:
        """Returns the aliases that a models file must define.

        The manager of an AutoPattern uses the default model.
        """
        has_manager = self.orchestrator.pattern == "AutoPattern" and len(self.agents) > 1
        return frozenset(agent.model for agent in self.agents.values()) | ({DEFAULT_MODEL} if has_manager else set())

    @property
    def is_refused(self) -> bool:
        return any(finding.level == "error" for finding in self.findings)
