"""Reads hooks and prompt middleware: functions that change what an agent is told and what it says."""

from collections.abc import Mapping
from pathlib import Path
from typing import get_args

from workflows.package.models import ALL_AGENTS, Hook, HookKind
from workflows.package.reading.code import PackageCode
from workflows.package.reading.section import Section
from workflows.package.reading.tool_entries import known_agent, means_every_agent

_KINDS: dict[str, HookKind] = {kind: kind for kind in get_args(HookKind)}
_MIDDLEWARE: HookKind = "update_agent_state"  # what prompt middleware is


def read_hooks(section: Section, *, folder: Path, agents: frozenset[str]) -> tuple[Hook, ...]:
    code = PackageCode(folder, kind="hook")
    lists = {key: entries for key in ("hooks", "prompt_middleware") if (entries := section.sequence(key))}
    found: list[Hook | None] = []
    for key, entries in lists.items():
        for index, entry in enumerate(entries):
            one = section.child(entry, f"{key}[{index}]")
            if isinstance(entry, Mapping):  # what is none has been said
                found.append(_hook(one, middleware=key != "hooks", code=code, agents=agents))
    if section.sequence("hook_files"):
        message = (
            "hold code instead of naming it, and are not called; write the code to files and name them under hooks"
        )
        section.blocks("hooks_not_executed", "hook_files", message)
    section.get("schema_version", "version", "description", "NOTE")
    section.report_rest()
    return tuple(hook for hook in found if hook is not None)


def _hook(section: Section, *, middleware: bool, code: PackageCode, agents: frozenset[str]) -> Hook | None:
    kind = _MIDDLEWARE if middleware else _kind(section)
    agent = _agent(section, agents)
    file, function = _function(section, code)
    section.get("description", "name")
    section.report_rest()
    if kind is None or file is None or not function or not agent:
        return None
    return Hook(kind, agent, file, function)


def _kind(section: Section) -> HookKind | None:
    raw = section.required_text("hook_type")
    if raw and raw not in _KINDS:
        section.error("wrong_value", "hook_type", f"must be one of {', '.join(_KINDS)}")
    return _KINDS.get(raw)


def _agent(section: Section, agents: frozenset[str]) -> str:
    field = "agent" if section.body.get("hook_agent") is None and "agent" in section.body else "hook_agent"
    section.get("agent", "hook_agent")
    name = section.required_text(field)
    if not name or means_every_agent(name, agents):
        return ALL_AGENTS if name else ""
    known_agent(section, field, name, agents)
    return name


def _function(section: Section, code: PackageCode) -> tuple[Path | None, str]:
    """`filename` and `function`, `files` and `function: module:name`, or a dotted path without a file."""
    written = section.required_text("function")
    module, _, function = written.rpartition(":") if ":" in written else written.rpartition(".")
    field, name = _file(section)
    if not name and module:
        name = module.replace(".", "/") + ".py"
        if ":" not in written and not any(code.has(f"{folder}{name}") for folder in ("", "tools/", "hooks/")):
            _report_dotted(section, written)
            return None, function
        field = "function"
    if not name:
        section.error("missing_field", "filename", "is needed: name the Python file with this function")
        return None, function
    return code.locate(section, name, function, fields=(field, "function")), function


def _file(section: Section) -> tuple[str, str]:
    name = section.text("filename", "file")
    if name is not None:
        return ("filename" if section.body.get("filename") is not None else "file"), name.strip()
    files = section.sequence("files")
    if not files:
        return "filename", ""
    if len(files) > 1:
        section.ignored("files", "only the first file is read; give each file its own hook")
    first = section.child(files[0], "files[0]")
    first.get("filecontent")  # what was written to the file when the package was made
    name = first.required_text("filename") if isinstance(files[0], Mapping) else ""
    first.report_rest()
    return "files[0].filename", name


def _report_dotted(section: Section, written: str) -> None:
    message = f"{written} is a function of another runtime: write it in a file of the package and name it in filename"
    section.blocks("foreign_import", "function", message)
