"""Reads the agents file: names, prompts, models and what an agent is expected to be able to do."""

from collections.abc import Iterator, Mapping
from typing import Any

from workflows.package.files.package_files import METADATA_FIELDS
from workflows.package.normal_form.package_model import DEFAULT_MODEL, TERMINATE, USER, Agent
from workflows.package.readers.agent_prompts import read_prompt
from workflows.package.readers.field_aliases import normalize_speaker, used_field_name
from workflows.package.readers.section import Section

_CAPABILITIES = (
    "sandbox_shell",
    "web_search",
    "duck_search",
    "web_fetch",
    "multimodal_inputs_enabled",
    "image_generation",
    "image_generation_enabled",
    "pending_turn_replay",
    "role",
)
_MAX_LENGTH = 64  # what model APIs take as the name of a speaker; so are the characters
_FORBIDDEN_CHARACTERS = frozenset('<>|\\/.$"')  # the dot and the dollar are for MongoDB, whose keys agents become


def read_agents(section: Section) -> dict[str, Agent]:
    agents: dict[str, Agent] = {}
    for one in _iter_entries(section):
        agent = _read_agent(one)
        if agent.name in agents:
            message = f"{agent.name} is defined twice; rename one"
            one.error("duplicate_agent", used_field_name(one, "name", "agent_name"), message)
        if agent.name:
            agents[agent.name] = agent
    if not agents and not _report_misnamed_root(section):
        section.error("no_agents", "agents", "a package needs at least one agent")
    return agents


def _report_misnamed_root(section: Section) -> bool:
    """One error for `agnts: [...]`, instead of one for each field that is no agent."""
    lost = [key for key, value in section.body.items() if isinstance(value, list) and isinstance(key, str)]
    if not _has_no_agents_mapping(section.body) or not lost:
        return False
    hint = "did you mean agents?" if section.findings.suggest_name(lost[0], ["agents"]) else "write them under agents"
    section.error("no_agents", lost[0], f"is not read, and a package needs at least one agent; {hint}")
    return True


def _has_no_agents_mapping(body: Mapping[Any, Any]) -> bool:
    return "agents" not in body and not any(value is None or isinstance(value, Mapping) for value in body.values())


def _iter_entries(section: Section) -> Iterator[Section]:
    """A list of agents, or a mapping from name to agent, under `agents` or bare."""
    if section.body and _has_no_agents_mapping(section.body):
        return
    body = section.body.get("agents", section.body)
    if isinstance(body, list):
        for index, entry in enumerate(body):
            one = section.child(entry, f"agents[{index}]")  # says what is no mapping
            if isinstance(entry, Mapping):
                yield one
    elif isinstance(body, Mapping):
        yield from _iter_named_entries(section, body, prefix="" if body is section.body else "agents.")
    else:
        section.error("wrong_type", "agents", "must be a list or a mapping of agents")
    if "agents" in section.body:
        section.skip_metadata("agents")
        section.report_unread()


def _iter_named_entries(section: Section, body: Mapping[Any, Any], *, prefix: str) -> Iterator[Section]:
    for key, entry in body.items():
        if not isinstance(key, str):
            section.error("wrong_type", prefix.rstrip("."), "has an agent whose name is no text; put it in quotes")
        elif entry is None or isinstance(entry, Mapping):
            written = {field: value for field, value in (entry or {}).items() if value is not None}
            named = written if "name" in written or "agent_name" in written else {"name": key, **written}
            yield section.child(named, f"{prefix}{key}")
        elif not (prefix == "" and key in METADATA_FIELDS):  # a sibling of the agents where `agents` is not written
            section.error("wrong_type", f"{prefix}{key}", "must be a mapping, as an agent is; or leave it out")


def _read_agent(section: Section) -> Agent:
    _report_not_executed(section)
    agent = Agent(
        name=_read_name(section),
        system_message=read_prompt(section),
        model=section.text("model") or DEFAULT_MODEL,
        description=section.text("description") or "",
        max_consecutive_auto_reply=_read_max_auto_replies(section),
        auto_tool_mode=section.flag("auto_tool_mode"),
        structured_outputs_required=section.flag("structured_outputs_required"),
        place=section.path,
    )
    section.report_unread()
    return agent


def _read_max_auto_replies(section: Section) -> int | None:
    field = "max_consecutive_auto_reply"
    if section.get(field) is None:
        return None
    most = section.integer(field, default=-1, minimum=0)
    return None if most < 0 else most


def _read_name(section: Section) -> str:
    field = used_field_name(section, "name", "agent_name")
    name = section.required_text(field)
    if normalize_speaker(name) != name or name in (USER, TERMINATE):
        message = f"{name} means a person or the end of the chat, so that no hand-off reaches it; rename the agent"
        section.error("reserved_name", field, message)
    elif (
        len(name) > _MAX_LENGTH
        or not name.isprintable()
        or any(map(str.isspace, name))
        or _FORBIDDEN_CHARACTERS & set(name)
    ):
        message = f"use at most {_MAX_LENGTH} characters, without spaces and without any of < > | \\ / . $ and quotes"
        section.error("wrong_value", field, message)
    return name


def _report_not_executed(section: Section) -> None:
    mode = section.text("human_input_mode")
    if mode is not None and mode.upper() != "NEVER":
        section.report_ignored("human_input_mode", f"{mode} needs a person in the chat; NEVER is used")
    if section.get("llm_config_type"):
        section.report_ignored("llm_config_type", "is not read; write model: with an alias of the models file")
    for capability in _CAPABILITIES:
        if _is_enabled(section.get(capability)):
            message = "is a capability that agents do not have here; give the agent a tool for it, or leave it out"
            section.warning("capability_unsupported", capability, message)


def _is_enabled(value: Any) -> bool:
    return bool(value) and not (isinstance(value, str) and value.strip().lower() in ("false", "no", "off", "none"))
