"""The reader of the orchestrator file: how a chat starts, continues and stops."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, get_args

from workflows.context.values.value_types import ValueType, is_of_type, is_one_of, parse_type_name
from workflows.package.normal_form.package_model import TERMINATE, Limits, Orchestrator, Pattern, StartupMode
from workflows.package.readers.field_aliases import normalize_speaker, used_field_name
from workflows.package.readers.section import Section
from workflows.package.trigger_specs.spec_field_types import NAME_PATTERN

_PATTERNS: Mapping[str, Pattern] = {name.lower(): name for name in get_args(Pattern)}
_STARTUP_MODES: Mapping[str, StartupMode] = {name.lower(): name for name in get_args(StartupMode)}
_NOT_EXECUTED = {
    "initial_message_to_user": "is a greeting for a user interface, which does not exist here",
    "visual_agents": "is for a user interface, which does not exist here",
    "outputs": "is not checked; the outcome of a run is its final context",
    "retry": "is not executed yet; the worker's own policy retries runs",
    "on_failure": "is not executed yet; monitor the state of runs instead",
}

MAX_REQUIRED_NAMES = 100
MAX_ENVIRONMENT_NAME_CHARACTERS = 200
ENVIRONMENT_NAME = re.compile(rf"[A-Za-z_][A-Za-z0-9_]{{0,{MAX_ENVIRONMENT_NAME_CHARACTERS - 1}}}", re.ASCII)


def read_orchestrator(section: Section, *, folder_name: str) -> Orchestrator:
    """Reads the file without its `triggers`, which the reader of triggers handles."""
    section.skip_metadata("triggers", "metadata")
    section.text("schema_version")
    section.flag("entry_point")
    _report_not_executed(section)
    orchestrator = Orchestrator(
        workflow_name=_read_workflow_name(section, folder_name),
        initial_agent=_read_initial_agent(section),
        pattern=_read_pattern(section),
        startup_mode=_read_startup_mode(section),
        human_in_the_loop=section.flag(used_field_name(section, "human_in_the_loop", "human_in_loop")),
        initial_message=section.text("initial_message"),
        failure_message_key=section.text("failure_message_key"),
        inputs=read_inputs(section),
        limits=_read_limits(section),
        required_environment=read_required_environment(section),
    )
    section.report_unread()
    return orchestrator


def _read_workflow_name(section: Section, folder_name: str) -> str:
    name = section.text("workflow_name")
    if section.get("workflow_name") is None:
        section.warning("no_workflow_name", "workflow_name", f"is missing; the directory's name {folder_name} is used")
        name = folder_name
    if name is not None and not NAME_PATTERN.fullmatch(name):  # the name is a part of URLs and of dedupe keys
        message = "use at most 100 letters, digits, dots, dashes and underscores; begin with a letter or digit"
        section.error("wrong_value", "workflow_name", message)
    return name or folder_name


def _read_initial_agent(section: Section) -> str:
    field = used_field_name(section, "initial_agent", "recipient", "initiating_agent")
    speaker = normalize_speaker(section.required_text(field))
    if speaker == TERMINATE:
        section.error("wrong_value", field, "would end the chat before it begins; name an agent, or user")
        return ""
    return speaker


def _read_pattern(section: Section) -> Pattern:
    field = "orchestration_pattern"
    word = section.text(field)
    if word is None:
        return "DefaultPattern"
    pattern = _PATTERNS.get(word.lower())
    if pattern is None:
        section.error("unknown_pattern", field, f"{word} is not one of {_list_names(_PATTERNS.values())}")
        return "DefaultPattern"
    return pattern


def _read_startup_mode(section: Section) -> StartupMode:
    modes: dict[str, StartupMode] = {}
    for field in ("startup_mode", "workflow_startup_mode"):
        word = section.text(field)
        mode = _STARTUP_MODES.get((word or "").lower())
        if mode is not None:
            modes[field] = mode
        elif word is not None:
            section.error("wrong_value", field, f"{word} is not one of {_list_names(_STARTUP_MODES.values())}")
    if len(set(modes.values())) > 1:
        message = "differs from its alias startup_mode; keep one of them"
        section.error("conflicting_fields", "workflow_startup_mode", message)
    if "UserDriven" in modes.values():
        place = section.path_of(next(iter(modes)))
        message = "waits for a user's first message; here the trigger's message, or initial_message, is used instead"
        section.findings.add("info", "starts_without_user", section.file, place, message)
    return next(iter(modes.values()), "BackendOnly")


def _read_limits(section: Section) -> Limits:
    limits = section.child(section.mapping("limits"), "limits")
    defaults = Limits()
    # Existing packages have `max_turns` beside `limits`; ours have it inside.
    max_turns = section.integer("max_turns", default=defaults.max_turns)
    result = Limits(
        max_turns=limits.integer("max_turns", default=max_turns),
        wall_clock_s=limits.number("wall_clock_s", default=defaults.wall_clock_s),
        model_calls=limits.integer("model_calls", default=defaults.model_calls),
        tool_calls=limits.integer("tool_calls", default=defaults.tool_calls),
        tokens=limits.integer("tokens", default=0) or None,
        usd=limits.number("usd", default=0) or None,
    )
    limits.report_unread(f"is not a limit; use one of {_list_names(Limits.__slots__)}")
    return result


def _report_not_executed(section: Section) -> None:
    for field, why in _NOT_EXECUTED.items():
        if section.get(field):
            section.report_ignored(field, why)
    if section.get("runtime_extensions"):
        message = "is code for a server, and workers do not run it; run it on that server"
        section.warning("ignored_in_worker", "runtime_extensions", message)
    fields: list[Any] = list(section.body)
    for field in (name for name in fields if isinstance(name, str) and name.startswith("ui_")):
        if section.get(field):
            section.report_ignored(field, "is for a user interface, which does not exist here")


def _list_names(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


def read_required_environment(section: Section) -> tuple[str, ...]:
    """Reads the names of required variables.

    Findings do not quote an invalid entry: it may be a secret value.
    """
    if section.get("requires") is None:
        return ()
    requires = section.child(section.mapping("requires"), "requires")
    names: list[str] = []
    for index, entry in enumerate(requires.sequence("env")[: MAX_REQUIRED_NAMES + 1]):
        place = f"env[{index}]"
        if index == MAX_REQUIRED_NAMES:
            requires.error("wrong_value", place, f"is beyond the limit of {MAX_REQUIRED_NAMES} required variables")
        elif isinstance(entry, str) and ENVIRONMENT_NAME.fullmatch(entry):
            names.append(entry)
        else:
            message = "is not the name of an environment variable; write only the name, such as SLACK_WEBHOOK_URL"
            requires.error("wrong_value", place, message)
    requires.report_unread("is not a supported requirement; write env: with names of environment variables")
    return tuple(dict.fromkeys(names))


def read_inputs(section: Section) -> dict[str, Mapping[str, Any]]:
    """Returns each spec with normalized `type` and boolean `required`."""
    return _read_specs(section, "inputs")


def _read_specs(section: Section, field: str) -> dict[str, Mapping[str, Any]]:
    specs: dict[str, Mapping[str, Any]] = {}
    entries: Mapping[Any, Any] = section.mapping(field)
    for name, spec in entries.items():
        if not isinstance(name, str):
            section.error("wrong_type", field, "has a name that is not text; write it in quotes")
        elif spec is None:
            specs[name] = {}
        elif isinstance(spec, Mapping):
            specs[name] = _read_spec(section.child(spec, f"{field}.{name}"))
        else:
            section.error("wrong_type", f"{field}.{name}", "must be a mapping such as {type: string, required: true}")
    return specs


def _read_spec(section: Section) -> Mapping[str, Any]:
    kind = _read_type_name(section)
    enum = section.sequence("enum")
    default = section.get("default")
    if default is not None and kind is not None and not is_of_type(default, kind):
        section.warning("wrong_default", "default", f"is not of type {kind}; change the default or the type")
    elif default is not None and enum and not is_one_of(default, enum):
        section.warning("wrong_default", "default", "is not one of the values in `enum`; add it there or change it")
    for field in ("description", "format", "title"):
        section.text(field)
    spec = {**section.body, "required": _read_required(section)}
    if kind is not None:
        spec["type"] = kind
    if section.get("properties") is not None:
        spec["properties"] = _read_specs(section, "properties")
    _check_items(section)
    section.report_unread("is not checked for an input; remove it")
    return spec


def _read_type_name(section: Section) -> ValueType | None:
    """Returns the type; None if it is absent or unknown."""
    word = section.text("type")
    if word is None:
        return None
    kind = parse_type_name(word)
    if kind is None:
        known = ", ".join(sorted(get_args(ValueType)))
        section.error("unknown_type", "type", f"{word[:100]} is not a known type; use one of {known}")
    return kind


def _check_items(section: Section) -> None:
    """Reports misspelt types inside `items`.

    `items` itself is reported as not checked.
    """
    items = section.body.get("items")
    if isinstance(items, Mapping):
        inner = section.child(items, "items")
        _read_type_name(inner)
        for name, spec in inner.mapping("properties").items():
            if isinstance(spec, Mapping):
                _read_type_name(inner.child(spec, f"properties.{name}"))
        _check_items(inner)


def _read_required(section: Section) -> bool:
    """Reads `required`.

    A list of required properties, as in JSON Schema, is reported and ignored.
    """
    if isinstance(section.get("required"), list):
        section.report_ignored("required", "is not checked inside an object; write required: true at the input itself")
        return False
    return section.flag("required")
