"""The reader of lifecycle tools: functions called at moments of a run.

Some moments belong to a turn of an agent.
"""

from collections.abc import Mapping
from typing import get_args

from workflows.package.normal_form.package_model import LifecycleTool, Moment
from workflows.package.readers.code.package_code import PackageCode
from workflows.package.readers.section import Section
from workflows.package.readers.tools.tool_entries import (
    TOOL_KINDS,
    check_agent,
    iter_tool_entries,
    means_every_agent,
    normalize_kind,
    read_tool_code,
    report_integration,
)

LIFECYCLE_TOOLS_FIELD = "lifecycle_tools"
PERSON_NEEDED_TEXT = (
    "requires a person at a user interface: the run stops as needs_human, unless its trigger has an answer"
    " in ui_responses: {tool: {key: value}}"
)
MOMENTS: dict[str, Moment] = {moment: moment for moment in get_args(Moment)} | {
    "workflow_start": "on_start",
    "workflow_end": "on_complete",
}
TURN_MOMENTS: tuple[Moment, ...] = ("before_agent", "after_agent")
_KINDS = {"lifecycletool", *TOOL_KINDS}


def read_lifecycle_tools(
    section: Section, *, package_code: PackageCode, agents: frozenset[str]
) -> tuple[LifecycleTool, ...]:
    tools = [
        _read_lifecycle_tool(entry, owner, package_code=package_code, agents=agents)
        for entry, owner in iter_tool_entries(section, LIFECYCLE_TOOLS_FIELD)
    ]
    return tuple(tool for tool in tools if tool is not None)


def _read_lifecycle_tool(
    section: Section, owner: str | None, *, package_code: PackageCode, agents: frozenset[str]
) -> LifecycleTool | None:
    """Reads one entry. `owner`: the key above it in older forms, an agent or a moment."""
    moment = read_moment(section, owner)
    agent = _read_agent(section, None if owner in MOMENTS else owner, agents)
    if agent is not None and section.get("agent") and moment is not None:
        report_agent_without_turn(section, "agent", moment)
    code = read_tool_code(section, package_code, extra_folders=("hooks",))
    _report_kind(section)
    _report_not_executed(section)
    report_integration(section)
    section.get("description", "id", "kind", "name", "tool_id")
    section.report_unread()
    if moment is None or code is None:
        return None
    return LifecycleTool(moment, agent, *code)


def read_moment(section: Section, owner: str | None = None) -> Moment | None:
    if section.get("trigger") is None and owner in MOMENTS:
        return MOMENTS[owner]
    raw = section.required_text("trigger")
    moment = MOMENTS.get(raw)
    if raw and moment is None:
        section.error("wrong_value", "trigger", f"must be one of {', '.join(MOMENTS)}")
    return moment


def report_agent_without_turn(section: Section, field: str, moment: Moment) -> None:
    if moment not in TURN_MOMENTS:
        section.report_ignored(field, f"has no effect: {moment} is not a moment of an agent's turn; remove it")


def _read_agent(section: Section, owner: str | None, agents: frozenset[str]) -> str | None:
    name = section.text("agent") or owner
    if not name or means_every_agent(name, agents):
        return None
    return name if check_agent(section, "agent", name, agents) else None


def _report_not_executed(section: Section) -> None:
    """Reports fields without effect.

    Generators write `ui: {component: null, mode: null}` to every entry.
    """
    ui = section.get("ui")
    has_value = any(value is not None for value in ui.values()) if isinstance(ui, Mapping) else ui is not None
    if has_value and not _is_ui_tool(section):
        section.report_ignored("ui", "has no effect: this is not a UI tool; remove it")
    for field in ("auto_invoke", "auto_tool_call"):
        if section.get(field) is not None and not section.flag(field):
            section.report_ignored(
                field, "has no effect: a lifecycle tool is always called at its moment; remove the field or the tool"
            )


def _report_kind(section: Section) -> None:
    raw = section.text("tool_type") or "Lifecycle_Tool"
    if normalize_kind(raw) not in _KINDS:
        section.error("wrong_value", "tool_type", "must be Lifecycle_Tool, Agent_Tool, UI_Tool or UI_Surface")
    elif _is_ui_tool(section):
        section.warning("ui_tool_headless", "tool_type", f"{raw} {PERSON_NEEDED_TEXT}")


def _is_ui_tool(section: Section) -> bool:
    return normalize_kind(section.text("tool_type") or "").startswith("ui")
