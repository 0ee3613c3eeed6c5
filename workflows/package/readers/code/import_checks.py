"""Checks of imports in package code: foreign and missing modules and names.

The checks follow the loading in a worker: a tool's file, the package files that it imports, and their imports.
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
_MAX_IMPORTS = 500  # per file
_MAX_FILES = 500  # per tool

CodeReader = Callable[[Path], ParsedCode]
_FOREIGN = "of another runtime: remove the import; ContextVariables and use_ui_tool are in workflows.tools"
_UNKNOWN_NAME_HINT = "correct the name, or remove it"
_MISSING = "which does not exist: add the file, correct the name, or use an import statement instead of a call"
_NOT_INSTALLED = ", which is neither a file of the package nor installed here: add the file, or install it"
_AMBIGUOUS = "which is both a file of the package and an installed module: the installed one is used; for the file"


@dataclass(frozen=True, slots=True)
class _ImportFaults:
    """The faults of a file's imports, and the package files that it needs.

    `faults`: by the code of their finding.
    """

    faults: dict[str, list[Import]]
    missing_names: list[Import]  # with only the names that the module lacks
    needed: dict[Path, bool]  # by file, whether loading the importing file needs it

    @property
    def fails_at_load(self) -> bool:
        modules = [fault for code in ("foreign_import", "missing_module") for fault in self.faults[code]]
        return any(module.is_at_load for module in modules) or any(name.names_at_load for name in self.missing_names)


def report_imports(
    section: Section, field: str, file: Path, *, root: Path, read_code: CodeReader, reported: dict[Path, bool]
) -> None:
    """Reports the imports of a file and of the package files that it imports.

    `root` is the package.

    Each file is reported once, and again if it turns out to be needed at load. The imports of a file that cannot be
    loaded are not followed, since they are never reached.
    """
    pending = [(file, True)]
    file_count = 0
    while pending and file_count < _MAX_FILES:
        current, at_load = pending.pop(0)
        if reported.get(current, False) >= at_load and current in reported:
            continue
        reported[current] = at_load
        file_count += 1
        imports = _check_file(current, root, read_code, at_load=at_load)
        _report_faults(section, field, current, imports.faults)
        _report_missing_names(section, field, current, imports.missing_names)
        if not imports.fails_at_load:
            pending += [(init, at_load) for init in find_parent_packages(current, root)]
            pending += imports.needed.items()


def _check_file(file: Path, root: Path, read_code: CodeReader, *, at_load: bool) -> _ImportFaults:
    code = read_code(file)
    result = _ImportFaults(
        {"foreign_import": [], "missing_module": [], "not_installed": [], "ambiguous_import": []}, [], {}
    )
    for written in code.imports[:_MAX_IMPORTS]:
        statement = written if at_load else replace(written, is_at_load=False, names_at_load=frozenset())
        fault, target = _check_import(statement, file, root, is_lenient=code.extends_path)
        if fault is not None:
            result.faults[fault].append(statement)
        elif target is None and (missing := _find_missing_names(statement, root)):
            result.missing_names.append(
                replace(statement, names=tuple(sorted(missing)), names_at_load=statement.names_at_load & missing)
            )
        if target is not None and target != file:
            result.needed[target] = result.needed.get(target, False) or statement.is_at_load
    return result


def _check_import(statement: Import, file: Path, root: Path, *, is_lenient: bool) -> tuple[str | None, Path | None]:
    """Returns the code of a fault, and the package file that is imported.

    `is_lenient`: the file extends sys.path, so a module may be found elsewhere.
    """
    if statement.is_relative:
        found = resolve_relative(statement.module, file, root)
        exists = (found is not None and found.exists) or _may_be_package_name(statement, file)
        return None if exists else "missing_module", found.file if found is not None else None
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
    """Returns the fault of importing a served module.

    An installed module of the same name is used instead.
    """
    if is_installed(statement.module, root):
        return None if has_module(statement.module) else "foreign_import"
    served = SERVED[statement.module]
    return (
        None if served.is_whole or (statement.names and served.names.issuperset(statement.names)) else "foreign_import"
    )


def _find_missing_names(statement: Import, root: Path) -> frozenset[str]:
    """Returns the imported names that a module of ours does not have."""
    known = read_tool_names(statement.module)
    if statement.module in SERVED and not is_installed(statement.module, root):
        known = SERVED[statement.module].names
    return frozenset() if known is None or statement.is_by_call else frozenset(statement.names) - known


def _find_missing_fault(statement: Import, *, is_lenient: bool) -> str | None:
    """Returns the fault of a module that is not in the package.

    Optional imports have none.
    """
    if statement.is_foreign:
        return "foreign_import"
    if statement.is_missing_here:
        return "missing_module"
    return "not_installed" if statement.is_at_load and not is_lenient and not is_importable(statement.module) else None


def _may_be_package_name(statement: Import, file: Path) -> bool:
    """Returns whether a relative import may take a name instead of a module.

    `from . import LIMIT` takes it from `__init__.py`.
    """
    above, _, _ = statement.module.rpartition(".")
    folders = [] if above.strip(".") else list(file.parents)[len(above) : len(above) + 1]
    return any((folder / "__init__.py").is_file() for folder in folders)


def _report_faults(section: Section, field: str, file: Path, faults: dict[str, list[Import]]) -> None:
    for code, why in (("foreign_import", _FOREIGN), ("missing_module", _MISSING)):
        for named, at_load in _summarize_modules(faults[code]):
            message = f"{file.name} imports {named} {why}"
            if at_load:
                section.report_blocking(code, field, f"{message}; the file cannot be loaded")
            else:
                section.warning(code, field, f"{message}; the call fails")
    for named, _ in _summarize_modules(faults["not_installed"]):
        message = f"{file.name} imports {named}{_NOT_INSTALLED} on the workers; runs fail without it"
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
            section.report_blocking("missing_name", field, f"{message}; the file cannot be loaded")
        else:
            section.warning("missing_name", field, f"{message}; the call fails")


def _summarize_modules(imports: list[Import]) -> Iterator[tuple[str, bool]]:
    names = list(dict.fromkeys(statement.module for statement in imports))
    if names:
        more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
        yield ", ".join(names[:_MAX_NAMES]) + more, any(statement.is_at_load for statement in imports)
