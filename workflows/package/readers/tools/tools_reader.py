"""The reader of the tools file: tools of agents, UI tools and lifecycle tools."""

from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from workflows.package.normal_form.package_model import LifecycleTool, OnError, Tool, ToolKind
from workflows.package.readers.code.package_code import PackageCode
from workflows.package.readers.durations import read_duration_s
from workflows.package.readers.section import Section
from workflows.package.readers.tools.lifecycle_tools_reader import PERSON_NEEDED_TEXT, read_lifecycle_tools
from workflows.package.readers.tools.tool_entries import (
    TOOL_KINDS,
    check_agent,
    iter_tool_entries,
    means_every_agent,
    normalize_kind,
    read_tool_code,
    report_integration,
)

_ON_ERROR: dict[str, OnError] = {name: name for name in get_args(OnError)}
EFFECT_VALUES = ("none", "unknown")
_TOOL_LISTS: dict[str, ToolKind] = {"tools": "Agent_Tool", "backend_tools": "Agent_Tool", "ui_tools": "UI_Tool"}


def read_tools(
    section: Section, *, folder: Path, agents: frozenset[str]
) -> tuple[tuple[Tool, ...], tuple[LifecycleTool, ...]]:
    code = PackageCode(folder, kind="tool")
    offered: set[tuple[str, str]] = set()
    tools: list[Tool] = []
    for entry, tool in _iter_tools(section, code, agents):
        tools.append(tool)
        offers = {(agent, tool.function) for agent in tool.agents} if tool.is_offered else set()
        if offers & offered:
            entry.error("duplicate_tool", "function", f"{tool.function} is assigned to an agent twice; remove one")
        offered |= offers
    lifecycle_tools = read_lifecycle_tools(section, package_code=code, agents=agents)
    section.skip_metadata("NOTE")
    section.report_unread()
    return tuple(tools), lifecycle_tools


def _iter_tools(section: Section, package_code: PackageCode, agents: frozenset[str]) -> Iterator[tuple[Section, Tool]]:
    for key, default in _TOOL_LISTS.items():
        for entry, owner in iter_tool_entries(section, key):
            tool = _read_tool(entry, owner=owner, default=default, package_code=package_code, agents=agents)
            if tool is not None:
                yield entry, tool


def _read_tool(
    section: Section, *, owner: str | None, default: ToolKind, package_code: PackageCode, agents: frozenset[str]
) -> Tool | None:
    owners = _read_owners(section, owner, agents)
    code = read_tool_code(section, package_code)
    kind = _read_kind(section, default)
    bound = section.flag("bind_to_agent", default=True)
    auto_invoke = section.flag("auto_invoke", "auto_tool_call", default=kind == "UI_Tool")
    if kind != "Agent_Tool":
        section.get("ui", "ui_contract", "display")
        section.warning("ui_tool_headless", "tool_type", f"{kind} {PERSON_NEEDED_TEXT}")
    timeout_s = read_duration_s(section, "timeout_s", "timeout_seconds", "timeout", default=0.0, max_s=86400)
    on_error = _read_on_error(section, is_automatic=auto_invoke and not bound)
    has_effects = _read_has_effects(section)
    if code is None:
        section.get("name", "tool_id", "description")
        return None
    file, function = code
    _report_names(section, function)
    description = section.text("description") or ""
    _report_unread(section)
    return Tool(
        owners,
        file,
        function,
        description,
        kind=kind,
        bound=bound,
        auto_invoke=auto_invoke,
        timeout_s=timeout_s or None,
        on_error=on_error,
        has_effects=has_effects,
        place=section.path,
    )


def _read_owners(section: Section, owner: str | None, agents: frozenset[str]) -> tuple[str, ...]:
    raw = section.get("agent", "agents")
    if raw is None:
        raw = owner
    names = raw if isinstance(raw, list) else [raw] if raw not in (None, "") else []
    if not names:
        section.error("missing_field", "agent", "is required: name the agent that may call this tool")
    owners: dict[str, None] = {}
    for name in names:
        if not isinstance(name, str):
            section.error("wrong_type", "agent", "must be the name of an agent, or a list of names")
        elif means_every_agent(name, agents):
            owners.update(dict.fromkeys(sorted(agents)))
        elif check_agent(section, "agent", name, agents):
            owners[name] = None
    return tuple(owners)


def _read_kind(section: Section, default: ToolKind) -> ToolKind:
    raw = section.text("tool_type")
    if raw is None:
        return default
    kind = TOOL_KINDS.get(normalize_kind(raw))
    if kind is None:
        message = "must be Agent_Tool, UI_Tool or UI_Surface; write lifecycle tools under lifecycle_tools"
        section.error("wrong_value", "tool_type", message)
    return kind or default


def _read_on_error(section: Section, *, is_automatic: bool) -> OnError:
    raw = section.text("on_error")
    if raw is None:
        return "tell"
    on_error = _ON_ERROR.get(raw.strip().lower())
    if on_error is None:
        section.error("wrong_value", "on_error", "must be tell (the model gets the error) or fail (the run fails)")
    elif on_error == "tell" and is_automatic:
        section.report_ignored(
            "on_error", "has no effect: a failed automatic tool fails the run, since no model called it; remove it"
        )
    return on_error or "tell"


def _read_has_effects(section: Section) -> bool:
    """Returns whether calls may have effects, which a replay would repeat.

    The default is yes.
    """
    effects = section.text("effects")
    if effects not in (None, *EFFECT_VALUES):
        section.error("wrong_value", "effects", f"must be one of {', '.join(EFFECT_VALUES)}")
    return effects != "none"


def _report_names(section: Section, function: str) -> None:
    for field in ("name", "tool_id"):
        if (section.text(field) or function) != function:
            section.report_ignored(
                field, f"is not used: the model calls this tool {function}; use that name in prompts"
            )


def _report_unread(section: Section) -> None:
    report_integration(section)
    if section.get("outcome"):
        why = "is not executed: the result is not written to a context variable; set the variable in the tool"
        section.report_ignored("outcome", why)
    if section.get("constraints"):
        section.report_ignored("constraints", "are not enforced; implement them in the tool's code")
    section.report_unread()
