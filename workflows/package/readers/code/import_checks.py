"""What the Python files of a package import and would not find: other runtimes, and files that are not there.

Looked at as the worker would load them: a tool's file, the neighbours it imports, and theirs.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from workflows.compat.served_names import SERVED
from workflows.package.readers.code.import_resolution import (
    find_parent_packages,
    has_module,
    is_importable,
    is_installed,
    resolve_absolute,
    resolve_relative,
)
from workflows.package.readers.code.parsed_code import Import, ParsedCode, read_tool_names
from workflows.package.readers.section import Section

_MAX_NAMES = 5
_MAX_IMPORTS = 500  # of a file; far more than any has
_MAX_FILES = 500  # of a tool

CodeReader = Callable[[Path], ParsedCode]
_FOREIGN = "of another runtime: take the import out; ContextVariables and use_ui_tool are in workflows.tools"
_UNKNOWN_NAME_HINT = "correct the name, or take it out"
_MISSING = "which is not there: add the file, or correct the name, or use an import statement instead of a call"
_NOT_INSTALLED = ", which is neither a file of the package nor installed here: add the file, or install it"
_AMBIGUOUS = "by a name that is a file of the package and an installed module: the installed one is taken; for the file"


@dataclass(frozen=True, slots=True)
class _ImportFaults:
    """By the code of their finding, and what else of the package a file needs."""

    faults: dict[str, list[Import]]
    missing_names: list[Import]  # each with the names that its module lacks
    needed: dict[Path, bool]  # whether it is needed when the importing file is loaded

    @property
    def fails_at_load(self) -> bool:
        modules = [fault for code in ("foreign_import", "missing_module") for fault in self.faults[code]]
        return any(module.is_at_load for module in modules) or any(name.names_at_load for name in self.missing_names)


def report_imports(
    section: Section, field: str, file: Path, *, root: Path, read_code: CodeReader, reported: dict[Path, bool]
) -> None:
    """`root` is the package. Each file is told of once, and again when more depends on it. Behind what cannot be loaded
    nothing is looked at: it would not be reached."""
    waiting = [(file, True)]
    looked_at = 0
    while waiting and looked_at < _MAX_FILES:
        current, at_load = waiting.pop(0)
        if reported.get(current, False) >= at_load and current in reported:
            continue
        reported[current] = at_load
        looked_at += 1
        found = _check_file(current, root, read_code, at_load=at_load)
        _report_faults(section, field, current, found.faults)
        _report_missing_names(section, field, current, found.missing_names)
        if not found.fails_at_load:
            waiting += [(init, at_load) for init in find_parent_packages(current, root)]
            waiting += found.needed.items()


def _check_file(file: Path, root: Path, read_code: CodeReader, *, at_load: bool) -> _ImportFaults:
    code = read_code(file)
    found = _ImportFaults(
        {"foreign_import": [], "missing_module": [], "not_installed": [], "ambiguous_import": []}, [], {}
    )
    for written in code.imports[:_MAX_IMPORTS]:
        one = written if at_load else replace(written, is_at_load=False, names_at_load=frozenset())
        fault, neighbour = _check_import(one, file, root, is_lenient=code.extends_path)
        if fault is not None:
            found.faults[fault].append(one)
        elif neighbour is None and (missing := _find_missing_names(one, root)):
            found.missing_names.append(
                replace(one, names=tuple(sorted(missing)), names_at_load=one.names_at_load & missing)
            )
        if neighbour is not None and neighbour != file:
            found.needed[neighbour] = found.needed.get(neighbour, False) or one.is_at_load
    return found


def _check_import(statement: Import, file: Path, root: Path, *, is_lenient: bool) -> tuple[str | None, Path | None]:
    """What is wrong with an import, and the file of the package that it leads to. `lenient`: the file says itself where
    else to look."""
    if statement.is_relative:
        found = resolve_relative(statement.module, file, root)
        there = (found is not None and found.exists) or _may_be_package_name(statement, file)
        return None if there else "missing_module", found.file if found is not None else None
    found = resolve_absolute(statement.module, file, root)
    if found is None:
        served = not statement.is_by_call and statement.module in SERVED
        return _find_served_fault(statement, root) if served else _find_missing_fault(
            statement, is_lenient=is_lenient
        ), None
    if is_installed(statement.module, root):
        return "ambiguous_import" if found.exists else None, None
    if statement.is_by_call and not is_lenient:
        return "missing_module", None
    return None if found.exists or is_lenient else "missing_module", found.file


def _find_served_fault(statement: Import, root: Path) -> str | None:
    """What is wrong with the import of a served module. What is installed under its name is never shadowed."""
    if is_installed(statement.module, root):
        return None if has_module(statement.module) else "foreign_import"
    served = SERVED[statement.module]
    return (
        None if served.is_whole or (statement.names and served.names.issuperset(statement.names)) else "foreign_import"
    )


def _find_missing_names(statement: Import, root: Path) -> frozenset[str]:
    """Of the names that are taken from a module of ours, those that it does not have."""
    known = read_tool_names(statement.module)
    if statement.module in SERVED and not is_installed(statement.module, root):
        known = SERVED[statement.module].names
    return frozenset() if known is None or statement.is_by_call else frozenset(statement.names) - known


def _find_missing_fault(statement: Import, *, is_lenient: bool) -> str | None:
    """What is wrong with a name that nothing of the package has. Who may do without a module is not told of it."""
    if statement.is_foreign:
        return "foreign_import"
    if statement.is_missing_here:
        return "missing_module"
    return "not_installed" if statement.is_at_load and not is_lenient and not is_importable(statement.module) else None


def _may_be_package_name(statement: Import, file: Path) -> bool:
    """`from . import LIMIT`, which may be a name of the package's `__init__.py` as well as a module."""
    above, _, _ = statement.module.rpartition(".")
    folders = [] if above.strip(".") else list(file.parents)[len(above) : len(above) + 1]
    return any((folder / "__init__.py").is_file() for folder in folders)


def _report_faults(section: Section, field: str, file: Path, faults: dict[str, list[Import]]) -> None:
    for code, why in (("foreign_import", _FOREIGN), ("missing_module", _MISSING)):
        for named, at_load in _summarize_modules(faults[code]):
            message = f"{file.name} imports {named} {why}"
            if at_load:
                section.report_blocking(code, field, f"{message}; it cannot be loaded")
            else:
                section.warning(code, field, f"{message}; it fails when it is called")
    for named, _ in _summarize_modules(faults["not_installed"]):
        message = f"{file.name} imports {named}{_NOT_INSTALLED} where the workers run; its runs fail without it"
        section.warning("not_installed", field, message)
    for named, _ in _summarize_modules(faults["ambiguous_import"]):
        message = f"{file.name} imports {named} {_AMBIGUOUS} write from .{named.partition(',')[0]} import …"
        section.warning("ambiguous_import", field, message)


def _report_missing_names(section: Section, field: str, file: Path, imports: list[Import]) -> None:
    for statement in imports:
        known = (
            SERVED[statement.module].names
            if statement.module in SERVED
            else read_tool_names(statement.module) or frozenset()
        )
        near = section.findings.suggest_name(statement.names[0], known)
        hint = f"did you mean {near}?" if near is not None and len(statement.names) == 1 else _UNKNOWN_NAME_HINT
        named = ", ".join(statement.names[:_MAX_NAMES])
        message = f"{file.name} imports {named} from {statement.module}, which has no such name: {hint}"
        if statement.names_at_load:
            section.report_blocking("missing_name", field, f"{message}; it cannot be loaded")
        else:
            section.warning("missing_name", field, f"{message}; it fails when it is called")


def _summarize_modules(imports: list[Import]) -> Iterator[tuple[str, bool]]:
    names = list(dict.fromkeys(statement.module for statement in imports))
    if names:
        more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
        yield ", ".join(names[:_MAX_NAMES]) + more, any(statement.is_at_load for statement in imports)
