"""Tool entries: lists, or in older packages mappings from an agent to its list."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from workflows.package.normal_form.package_model import ALL_AGENTS, ToolKind
from workflows.package.readers.code.package_code import PackageCode
from workflows.package.readers.code.parsed_code import OWN_ROOT
from workflows.package.readers.section import Section

TOOL_KINDS: dict[str, ToolKind] = {"agenttool": "Agent_Tool", "uitool": "UI_Tool", "uisurface": "UI_Surface"}
_EVERY_AGENT = {ALL_AGENTS, "all_agents"}


def iter_tool_entries(section: Section, key: str) -> Iterator[tuple[Section, str | None]]:
    """Yields each entry, with the key above it if the entries are grouped."""
    raw = section.get(key)
    if not isinstance(raw, Mapping):
        yield from ((entry, None) for entry in _iter_mappings(section, key, section.sequence(key)))
        return
    grouped = section.child(raw, key)
    for owner in raw:
        if not isinstance(owner, str):
            section.error(
                "wrong_type", key, f"has the key {owner!r}, which is not the name of an agent; write it in quotes"
            )
            continue
        yield from ((entry, owner) for entry in _iter_mappings(grouped, owner, grouped.sequence(owner)))


def _iter_mappings(section: Section, key: str, entries: list[Any]) -> Iterator[Section]:
    for index, body in enumerate(entries):
        entry = section.child(body, f"{key}[{index}]")
        if isinstance(body, Mapping):  # anything else was reported by child()
            yield entry


def normalize_kind(word: str) -> str:
    """Removes blanks, underscores and case from a `tool_type`.

    `UI_Tool` and `uitool` mean the same.
    """
    return word.strip().replace("_", "").lower()


def means_every_agent(name: str, agents: frozenset[str]) -> bool:
    return name not in agents and name.casefold() in _EVERY_AGENT


def check_agent(section: Section, field: str, name: str, agents: frozenset[str]) -> bool:
    if name not in agents:
        message = f"{name} is not an agent of this package; correct it, or add the agent"
        section.error("unknown_agent", field, message)
    return name in agents


def read_tool_code(
    section: Section, package_code: PackageCode, *, extra_folders: tuple[str, ...] = ()
) -> tuple[Path, str] | None:
    """Reads `file` and `function`, or the older `path`.

    The older form is `workflows.<Name>.tools.module.function`.
    """
    path = section.text("path")
    if path is None or section.get("file") is not None:
        function = section.required_text("function")
        name = section.required_text("file")
        fields = ("file", "function")
    else:
        section.get("function")
        name, function = _parse_dotted_path(path)
        fields = ("path", "path")
        if not name:
            section.error("wrong_value", "path", "must be workflows.<Name>.tools.<module>.<function>")
    file = package_code.locate(section, name, function, fields=fields, extra_folders=extra_folders) if name else None
    return (file, function) if file is not None and function else None


def report_integration(section: Section) -> None:
    if section.get("integration"):
        section.report_ignored("integration", "is not executed; call the service in the code")


def _parse_dotted_path(path: str) -> tuple[str, str]:
    """Returns file and function of a dotted path.

    `workflows.Any.tools.mail.send` is send in tools/mail.py.
    """
    *module, function = path.strip().removeprefix("factory_app.").replace(":", ".").split(".")
    if "tools" in module:
        module = module[module.index("tools") :]
    elif module[:1] == [OWN_ROOT]:
        module = module[2:]
    return ("/".join(module) + ".py" if all(module) and module else "", function)
