"""The reader of the agents file: names, prompts, models and modes of agents."""

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
_MAX_LENGTH = 64  # the limit of model APIs for the name of a speaker
_FORBIDDEN_CHARACTERS = frozenset('<>|\\/.$"')  # forbidden by model APIs; . and $ by MongoDB, which has names as keys


def read_agents(section: Section) -> dict[str, Agent]:
    agents: dict[str, Agent] = {}
    for entry in _iter_entries(section):
        agent = _read_agent(entry)
        if agent.name in agents:
            message = f"{agent.name} is defined twice; rename one"
            entry.error("duplicate_agent", used_field_name(entry, "name", "agent_name"), message)
        if agent.name:
            agents[agent.name] = agent
    if not agents and not _report_misnamed_root(section):
        section.error("no_agents", "agents", "a package requires at least one agent")
    return agents


def _report_misnamed_root(section: Section) -> bool:
    """Reports `agnts: [...]` as one error, instead of one error per field."""
    lists = [key for key, value in section.body.items() if isinstance(value, list) and isinstance(key, str)]
    if not _has_no_agents_mapping(section.body) or not lists:
        return False
    hint = "did you mean agents?" if section.findings.suggest_name(lists[0], ["agents"]) else "write them under agents"
    section.error("no_agents", lists[0], f"is not read, and a package requires at least one agent; {hint}")
    return True


def _has_no_agents_mapping(body: Mapping[Any, Any]) -> bool:
    return "agents" not in body and not any(value is None or isinstance(value, Mapping) for value in body.values())


def _iter_entries(section: Section) -> Iterator[Section]:
    """Yields the agents of a list or of a mapping by name.

    They are under `agents` or at the root.
    """
    if section.body and _has_no_agents_mapping(section.body):
        return
    body = section.body.get("agents", section.body)
    if isinstance(body, list):
        for index, entry in enumerate(body):
            agent = section.child(entry, f"agents[{index}]")  # reports an entry that is not a mapping
            if isinstance(entry, Mapping):
                yield agent
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
            section.error(
                "wrong_type", prefix.rstrip("."), "has an agent with a name that is not text; write it in quotes"
            )
        elif entry is None or isinstance(entry, Mapping):
            fields = {field: value for field, value in (entry or {}).items() if value is not None}
            named_fields = fields if "name" in fields or "agent_name" in fields else {"name": key, **fields}
            yield section.child(named_fields, f"{prefix}{key}")
        elif not (
            prefix == "" and key in METADATA_FIELDS
        ):  # metadata beside the agents, if the key `agents` is left out
            section.error(
                "wrong_type", f"{prefix}{key}", "must be a mapping with the fields of an agent, or be removed"
            )


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
    max_replies = section.integer(field, default=-1, minimum=0)
    return None if max_replies < 0 else max_replies


def _read_name(section: Section) -> str:
    field = used_field_name(section, "name", "agent_name")
    name = section.required_text(field)
    if normalize_speaker(name) != name or name in (USER, TERMINATE):
        message = f"{name} stands for a person or the end of the chat, so no hand-off reaches this agent; rename it"
        section.error("reserved_name", field, message)
    elif (
        len(name) > _MAX_LENGTH
        or not name.isprintable()
        or any(map(str.isspace, name))
        or _FORBIDDEN_CHARACTERS & set(name)
    ):
        message = f"use at most {_MAX_LENGTH} characters, without spaces, quotes and < > | \\ / . $"
        section.error("wrong_value", field, message)
    return name


def _report_not_executed(section: Section) -> None:
    mode = section.text("human_input_mode")
    if mode is not None and mode.upper() != "NEVER":
        section.report_ignored("human_input_mode", f"{mode} requires a person in the chat; NEVER is used")
    if section.get("llm_config_type"):
        section.report_ignored("llm_config_type", "is not read; write model: with an alias from the models file")
    for capability in _CAPABILITIES:
        if _is_enabled(section.get(capability)):
            message = "is a capability that agents do not have here; give the agent a tool for it, or remove it"
            section.warning("capability_unsupported", capability, message)


def _is_enabled(value: Any) -> bool:
    return bool(value) and not (isinstance(value, str) and value.strip().lower() in ("false", "no", "off", "none"))
