"""Reads the agents file: names, prompts and models."""

from collections.abc import Iterator, Mapping
from typing import Any

from workflows.package.models import Agent
from workflows.package.reading.section import Section

_SECTION_ORDER = (
    "role",
    "objective",
    "context",
    "runtime_integrations",
    "guidelines",
    "instructions",
    "examples",
    "json_output_compliance",
    "output_format",
)


def read_agents(section: Section) -> dict[str, Agent]:
    agents: dict[str, Agent] = {}
    for one in _entries(section):
        agent = _agent(one)
        if agent.name in agents:
            one.error("duplicate_agent", "name", f"{agent.name} is defined twice; rename one")
        if agent.name:
            agents[agent.name] = agent
    if not agents:
        section.error("no_agents", "agents", "a package needs at least one agent")
    return agents


def _entries(section: Section) -> Iterator[Section]:
    """A list of agents, or a mapping from name to agent, under `agents` or bare."""
    body: Any = section.body.get("agents", section.body)
    if isinstance(body, Mapping):
        for name, entry in body.items():
            if name == "schema_version":  # a sibling of the agents where the file has no `agents` key of its own
                continue
            named = {"name": name, **entry} if isinstance(entry, Mapping) else entry
            yield Section(named, file=section.file, path=section.at(f"agents.{name}"), findings=section.findings)
    elif isinstance(body, list):
        for index, entry in enumerate(body):
            yield Section(entry, file=section.file, path=section.at(f"agents[{index}]"), findings=section.findings)
    else:
        section.error("wrong_type", "agents", "must be a list or a mapping of agents")


def _agent(section: Section) -> Agent:
    name = section.required_text("name", "agent_name")
    for unsupported in ("auto_tool_mode", "structured_outputs_required"):
        if section.flag(unsupported):
            section.error("unsupported", unsupported, "is not supported; set it to false or leave it out")
    mode = section.text("human_input_mode")
    if mode is not None and mode.upper() != "NEVER":
        section.ignored("human_input_mode", f"{mode} needs a person in the chat; NEVER is used")
    section.get("description", "llm_config_type")
    agent = Agent(name=name, system_message=_prompt(section), model=section.text("model") or "default")
    section.report_rest()
    return agent


def _prompt(section: Section) -> str:
    raw = section.get("prompt_sections")
    custom = section.get("prompt_sections_custom")
    parts = [*_ordered(raw, section), *_ordered(custom, section)]
    system_message = section.text("system_message")
    if not parts:
        return system_message or ""
    return "\n\n".join(parts)


def _ordered(raw: Any, section: Section) -> list[str]:
    if raw is None:
        return []
    if isinstance(raw, Mapping):
        known = [raw[key] for key in _SECTION_ORDER if key in raw]
        entries = [*known, *(value for key, value in raw.items() if key not in _SECTION_ORDER)]
    elif isinstance(raw, list):
        entries = raw
    else:
        section.error("wrong_type", "prompt_sections", "must be a list or a mapping of sections")
        return []
    return [text for entry in entries if (text := _section_text(entry))]


def _section_text(entry: Any) -> str | None:
    if isinstance(entry, str):
        return entry
    if not isinstance(entry, Mapping) or entry.get("content") is None:
        return None
    heading = entry.get("heading")
    return f"{heading}\n{entry['content']}" if heading else str(entry["content"])
