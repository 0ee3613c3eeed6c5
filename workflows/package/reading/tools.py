"""Reads the tools file. Tool code is parsed to see that the function exists, never imported here."""

import ast
from pathlib import Path
from typing import Any

from workflows.package.models import Tool
from workflows.package.reading.section import Section


def read_tools(section: Section, *, folder: Path, agents: frozenset[str]) -> tuple[Tool, ...]:
    tools: list[Tool] = []
    for index, entry in enumerate(section.sequence("tools")):
        one = Section(entry, file=section.file, path=f"tools[{index}]", findings=section.findings)
        tool = _tool(one, folder=folder, agents=agents)
        if tool is None:
            continue
        for other in tools:
            if other.function == tool.function and set(other.agents) & set(tool.agents):
                one.error("duplicate_tool", "function", f"{tool.function} is given to an agent twice; remove one")
        tools.append(tool)
    if section.sequence("lifecycle_tools"):
        section.error("unsupported", "lifecycle_tools", "are not supported; leave them out")
    section.report_rest()
    return tuple(tools)


def _tool(section: Section, *, folder: Path, agents: frozenset[str]) -> Tool | None:
    owners = _owners(section, agents)
    function = section.required_text("function")
    file = _file(section, folder)
    kind = section.text("tool_type") or "Agent_Tool"
    if section.flag("auto_invoke", "auto_tool_call"):
        section.ignored("auto_invoke", "the agent decides when to call this tool")
    if (section.text("name") or function) != function:
        section.ignored("name", f"the agent knows this tool as {function}")
    description = section.text("description") or ""
    if kind in {"UI_Tool", "UI_Surface"}:
        section.get("ui", "ui_contract")
        section.ignored("tool_type", f"{kind} needs a user interface; it is not offered to the agent")
        return None
    if not section.flag("bind_to_agent", default=True):
        section.ignored("bind_to_agent", "a tool that is not bound is not offered to the agent")
        return None
    if kind != "Agent_Tool":
        section.error("wrong_value", "tool_type", f"{kind} is not Agent_Tool, UI_Tool or UI_Surface")
    section.report_rest()
    if file is None or not function:
        return None
    _check_function(section, file, function)
    return Tool(agents=owners, file=file, function=function, description=description)


def _owners(section: Section, agents: frozenset[str]) -> tuple[str, ...]:
    raw: Any = section.get("agent", "agents")
    names = tuple(str(name) for name in raw) if isinstance(raw, list) else (str(raw),) if raw else ()
    if not names:
        section.error("missing_field", "agent", "is needed: name the agent that may call this tool")
    for name in names:
        if name not in agents:
            section.error("unknown_agent", "agent", f"{name} is not an agent of this package")
    return names


def _file(section: Section, folder: Path) -> Path | None:
    name = section.required_text("file")
    if not name:
        return None
    if "\x00" in name:  # no system can have it
        section.error("wrong_value", "file", "is not the name of a file")
        return None
    root = folder.resolve()
    for candidate in ((folder / name).resolve(), (folder / "tools" / name).resolve()):
        shared = root.parent / "_shared"
        if not candidate.is_relative_to(root) and not candidate.is_relative_to(shared):
            section.error("leaves_package", "file", f"{name} is outside the package; only ../_shared is allowed")
            return None
        if candidate.is_file():
            return candidate
    section.error("missing_tool_file", "file", f"{name} is neither in the package nor in its tools folder")
    return None


def _check_function(section: Section, file: Path, function: str) -> None:
    try:
        tree = ast.parse(file.read_bytes(), filename=str(file))
    except (SyntaxError, ValueError) as error:
        section.error("broken_tool_file", "file", f"{file.name} cannot be parsed: {error}")
        return
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    if function not in defined:
        section.error("missing_tool_function", "function", f"{file.name} does not define {function}")
