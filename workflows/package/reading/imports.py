"""What a Python file of a package imports and would not find: other runtimes, what is not written yet, its neighbours.

The worker loads each file by its path, alone: Python looks for modules neither beside it nor in its package.
"""

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from workflows.package.raw.files import SHARED
from workflows.package.reading.parsed_code import OWN_ROOT, Code, Import
from workflows.package.reading.section import Section

_NAMED = 5
_MOST_IMPORTS = 500  # that are looked for on disk; far more than any file has
_MOST_PARTS = 20
_LONGEST_NAME = 200

Read = Callable[[Path], Code]


def report_imports(section: Section, field: str, file: Path, *, root: Path, read: Read, told: set[Path]) -> None:
    """`root` is the package. Neighbours are looked into as well, one step far, unless they are `told` of already."""
    code = read(file)
    neighbours = {each: _neighbour(each, file, root) for each in code.imports[:_MOST_IMPORTS]}
    failing = [each for each in code.imports if each.is_relative or (neighbours.get(each) and not code.extends_path)]
    why = f"of the package: files are loaded one by one, and find none beside them nor in ../{SHARED}; write one file"
    _say(section, field, "sibling_import", file, failing, why)
    _report_missing(section, field, file, [each for each in code.imports if neighbours.get(each) is None])
    needed: dict[Path, bool] = {}
    for each, neighbour in neighbours.items():
        if neighbour is not None:
            needed[neighbour] = needed.get(neighbour, False) or each.at_load
    told.add(file)
    for neighbour, at_load in needed.items():
        if neighbour in told:
            continue
        told.add(neighbour)
        inner = [Import(each.module, each.at_load and at_load) for each in read(neighbour).imports]
        _report_missing(section, field, neighbour, inner)


def _report_missing(section: Section, field: str, file: Path, imports: list[Import]) -> None:
    foreign = [each for each in imports if each.is_foreign]
    _say(section, field, "foreign_import", file, foreign, "of another runtime: take the import out")
    awaited = [each for each in imports if each.is_not_there_yet]
    why = "which is not there yet: take context_variables as a parameter of the function instead"
    _say(section, field, "missing_module", file, awaited, why)


def _say(section: Section, field: str, code: str, file: Path, imports: list[Import], why: str) -> None:
    named = list(dict.fromkeys(each.module for each in imports))
    if not named:
        return
    modules = ", ".join(named[:_NAMED]) + (f" and {len(named) - _NAMED} more" if len(named) > _NAMED else "")
    message = f"{file.name} imports {modules} {why}"
    if any(each.at_load for each in imports):
        section.blocks(code, field, f"{message}; it cannot be loaded")
    else:
        section.warning(code, field, f"{message}; it fails when it is called")


def _neighbour(one: Import, file: Path, root: Path) -> Path | None:
    """The file of the package, or of the shared folder, that an author means by a name."""
    name = one.module.lstrip(".")
    parts = name.split(".")[:_MOST_PARTS]
    if len(name) > _LONGEST_NAME or not all(map(str.isidentifier, parts)):
        return None
    if one.is_relative:
        above = len(one.module) - len(name) - 1
        return next(_modules(list(file.parents)[above : above + 1], parts, root), None)
    if parts[0] == OWN_ROOT or parts[0] in sys.stdlib_module_names:
        return None
    places = [file.parent, root, *([root.parent] if parts[0] == SHARED else [])]
    found = next((each for each in _modules(places, parts, root) if each != file), None)
    return None if found is None or _is_installed(parts[0], root) else found


def _modules(places: list[Path], parts: list[str], root: Path) -> Iterator[Path]:
    """The file of the longest part of the name that is one, in each place."""
    allowed = (root, root.parent / SHARED)
    for place in places:
        paths = (place.joinpath(*parts[:count]) for count in range(len(parts), 0, -1))
        files = (each for path in paths for each in (path.with_name(f"{path.name}.py"), path / "__init__.py"))
        found = next((each for each in files if each.is_file()), None)
        if found is not None and any(found.is_relative_to(each) for each in allowed):
            yield found


def _is_installed(name: str, root: Path) -> bool:
    """Looked up, not imported. What is found in the package itself is found from this directory only."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return False
    return spec is not None and not Path(spec.origin or "").is_relative_to(root)
