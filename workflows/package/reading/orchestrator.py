"""Reads the orchestrator file: how a conversation starts, flows and stops."""

from collections.abc import Mapping
from typing import Any, cast, get_args

from workflows.package.models import Limits, Orchestrator, Pattern
from workflows.package.reading.section import Section
from workflows.package.trigger_specs import NAME

SUPPORTED_PATTERNS = {"DefaultPattern", "Pipeline", "ag2_network"}


def read_orchestrator(section: Section, *, folder_name: str) -> Orchestrator:
    name = section.text("workflow_name")
    if name is None:
        section.warning("no_workflow_name", "workflow_name", f"is missing; the directory's name {folder_name} is used")
    elif not NAME.fullmatch(name):  # it stands in addresses and in the keys that make runs unique
        section.error("wrong_value", "workflow_name", "use letters, digits, dots, dashes and underscores, at most 100")
    section.get("triggers", "schema_version", "startup_mode", "workflow_startup_mode", "entry_point", "metadata")
    section.get("description", "outputs")
    if section.get("initial_message_to_user"):
        section.ignored("initial_message_to_user", "is a greeting for a user interface; there is none here")
    orchestrator = Orchestrator(
        workflow_name=name or folder_name,
        initial_agent=section.required_text("initial_agent", "recipient", "initiating_agent"),
        pattern=_pattern(section),
        human_in_the_loop=section.flag("human_in_the_loop"),
        initial_message=section.text("initial_message"),
        inputs=_inputs(section),
        limits=_limits(section),
    )
    section.report_rest()
    return orchestrator


def _inputs(section: Section) -> dict[str, Mapping[str, Any]]:
    inputs: dict[str, Mapping[str, Any]] = {}
    for name, spec in section.mapping("inputs").items():
        if spec is None or isinstance(spec, Mapping):
            inputs[str(name)] = spec or {}
        else:
            section.error("wrong_type", f"inputs.{name}", "must be a mapping such as {type: string, required: true}")
    return inputs


def _pattern(section: Section) -> Pattern:
    pattern = section.text("orchestration_pattern") or "DefaultPattern"
    if pattern not in get_args(Pattern):
        section.error(
            "unknown_pattern", "orchestration_pattern", f"{pattern} is not one of {_listed(get_args(Pattern))}"
        )
    elif pattern not in SUPPORTED_PATTERNS:
        section.error(
            "unsupported", "orchestration_pattern", f"{pattern} is not supported; use {_listed(SUPPORTED_PATTERNS)}"
        )
    return cast("Pattern", pattern)


def _limits(section: Section) -> Limits:
    raw: Any = section.mapping("limits")
    limits = Section(raw, file=section.file, path=section.at("limits"), findings=section.findings)
    defaults = Limits()
    # `max_turns` stands beside `limits` in packages as they exist, and inside it in ours.
    max_turns = section.integer("max_turns", default=defaults.max_turns)
    read = Limits(
        max_turns=limits.integer("max_turns", default=max_turns),
        wall_clock_s=limits.number("wall_clock_s", default=defaults.wall_clock_s),
        model_calls=limits.integer("model_calls", default=defaults.model_calls),
    )
    limits.report_rest("this limit is not enforced yet")
    return read


def _listed(names: Any) -> str:
    return ", ".join(sorted(names))
