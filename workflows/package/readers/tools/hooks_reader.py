"""The reader of the hooks file: hooks, prompt middleware, lifecycle tools.

Lifecycle tools are the entries with a `trigger`.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, get_args

from workflows.package.normal_form.package_model import ALL_AGENTS, Hook, HookKind, LifecycleTool
from workflows.package.readers.code.package_code import PackageCode
from workflows.package.readers.section import Section
from workflows.package.readers.tools.lifecycle_tools_reader import read_moment, report_agent_without_turn
from workflows.package.readers.tools.tool_entries import check_agent, means_every_agent, report_integration

HOOK_LISTS = ("hooks", "hook_files", "prompt_middleware")
_MIDDLEWARE_LIST = "prompt_middleware"
_MIDDLEWARE_KIND: HookKind = "update_agent_state"
_KINDS: dict[str, HookKind] = {kind: kind for kind in get_args(HookKind)}


def read_hooks(
    section: Section, *, folder: Path, agents: frozenset[str]
) -> tuple[tuple[Hook, ...], tuple[LifecycleTool, ...]]:
    code = PackageCode(folder, kind="hook")
    entries = [_read_entry(entry, key, code=code, agents=agents) for key, entry in _iter_entries(section)]
    section.skip_metadata("NOTE")
    section.report_unread()
    hooks = tuple(entry for entry in entries if isinstance(entry, Hook))
    return hooks, tuple(entry for entry in entries if isinstance(entry, LifecycleTool))


def _iter_entries(section: Section) -> Iterator[tuple[str, Section]]:
    for key in HOOK_LISTS:
        for index, body in enumerate(section.sequence(key)):
            entry = section.child(body, f"{key}[{index}]")
            if isinstance(body, Mapping):  # anything else was reported by child()
                yield key, entry


def _read_entry(
    section: Section, key: str, *, code: PackageCode, agents: frozenset[str]
) -> Hook | LifecycleTool | None:
    if key == _MIDDLEWARE_LIST:
        return _read_hook(section, _MIDDLEWARE_KIND, code=code, agents=agents)
    if section.body.get("trigger") is not None and section.body.get("hook_type") is not None:
        message = (
            "is beside hook_type: an entry is either called at a moment of the run (trigger), or changes the prompt or"
            " the reply of an agent (hook_type); keep one, or write two entries"
        )
        section.error("wrong_value", "trigger", message)
        return None
    if is_lifecycle_entry(section.body, key):
        return _read_lifecycle_tool(section, code=code, agents=agents)
    return _read_hook(section, _read_kind(section), code=code, agents=agents)


def is_lifecycle_entry(entry: Any, key: str) -> bool:
    """Returns whether an entry of the list `key` is a lifecycle tool.

    Its moment may be missing.
    """
    if key == _MIDDLEWARE_LIST or not isinstance(entry, Mapping) or entry.get("hook_type") is not None:
        return False
    return key == "hook_files" or entry.get("trigger") is not None


def _read_hook(section: Section, kind: HookKind | None, *, code: PackageCode, agents: frozenset[str]) -> Hook | None:
    agent = _read_agent(section, agents)
    file, function = _read_function(section, code)
    section.get("description", "name")
    section.report_unread()
    if kind is None or file is None or not function or not agent:
        return None
    return Hook(kind, agent, file, function)


def _read_lifecycle_tool(section: Section, *, code: PackageCode, agents: frozenset[str]) -> LifecycleTool | None:
    moment = read_moment(section)
    field = _agent_field(section)
    agent = ALL_AGENTS if section.get("hook_agent", "agent") is None else _read_agent(section, agents)
    if moment is not None and agent not in (ALL_AGENTS, ""):
        report_agent_without_turn(section, field, moment)
    file, function = _read_function(section, code, is_named_like_file=True)
    report_integration(section)
    section.get("description", "name", "tool_type")
    section.report_unread()
    if moment is None or file is None or not function or not agent:
        return None
    return LifecycleTool(moment, None if agent == ALL_AGENTS else agent, file, function)


def _read_kind(section: Section) -> HookKind | None:
    if section.body.get("hook_type") is None:
        kinds = ", ".join(_KINDS)
        message = f"is required: one of {kinds}; or trigger, with a moment such as before_chat, for a lifecycle tool"
        section.error("missing_field", "hook_type", message)
        return None
    raw = section.required_text("hook_type")
    if raw and raw not in _KINDS:
        section.error("wrong_value", "hook_type", f"must be one of {', '.join(_KINDS)}")
    return _KINDS.get(raw)


def _agent_field(section: Section) -> str:
    return "agent" if section.body.get("hook_agent") is None and "agent" in section.body else "hook_agent"


def _read_agent(section: Section, agents: frozenset[str]) -> str:
    field = _agent_field(section)
    section.get("agent", "hook_agent")
    name = section.required_text(field)
    if not name or means_every_agent(name, agents):
        return ALL_AGENTS if name else ""
    check_agent(section, field, name, agents)
    return name


def _read_function(section: Section, code: PackageCode, *, is_named_like_file: bool = False) -> tuple[Path | None, str]:
    """Reads the file and the name of a function.

    Forms: `filename` and `function`; `files` and `function: module:name`; a dotted path without a file.
    `is_named_like_file`: the function may be omitted and has the file's name then.
    """
    field, name = _read_file_name(section)
    function_field = "function"
    if is_named_like_file and section.get("function") is None:
        path, function_field = PurePosixPath(name).stem, field
    else:
        path = section.required_text("function")
    module, _, function = path.rpartition(":") if ":" in path else path.rpartition(".")
    if not name and module:
        name = module.replace(".", "/") + ".py"
        if ":" not in path and not code.has_file(name):
            _report_dotted_path(section, path)
            return None, function
        field = "function"
    if not name:
        section.error("missing_field", "filename", "is required: name the Python file with this function")
        return None, function
    return _locate_file(section, code, name, function, fields=(field, function_field)), function


def _locate_file(
    section: Section, code: PackageCode, name: str, function: str, *, fields: tuple[str, str]
) -> Path | None:
    """Returns the file. Code in the entry itself is never executed."""
    if section.get("content"):
        if not code.has_file(name):
            message = f"has code, which is not executed from here; write it to {name} in the package"
            section.report_blocking("hooks_not_executed", "content", message)
            return None
        section.report_ignored("content", f"is not read: the code in {name} is executed; remove it")
    return code.locate(section, name, function, fields=fields)


def _read_file_name(section: Section) -> tuple[str, str]:
    name = section.text("filename", "file")
    if name is not None:
        return ("filename" if section.body.get("filename") is not None else "file"), name.strip()
    files = section.sequence("files")
    if not files:
        return "filename", ""
    if len(files) > 1:
        section.report_ignored("files", "has several files, and only the first is read; write one hook per file")
    first = section.child(files[0], "files[0]")
    first.get("filecontent")  # a copy of the file's content; not used
    name = first.required_text("filename") if isinstance(files[0], Mapping) else ""
    first.report_unread()
    return "files[0].filename", name


def _report_dotted_path(section: Section, path: str) -> None:
    message = f"{path} is a function of another runtime: write it in a file of the package, and set filename"
    section.report_blocking("foreign_import", "function", message)
